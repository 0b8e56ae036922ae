"""`apps.grpo`, as the tutorial names the training program and `grpo_utils`."""
