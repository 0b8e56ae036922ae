"""Signs in the metrics of a run: nothing to learn from, a collapse of the policy, an exploited reward."""
