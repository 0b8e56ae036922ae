"""The functions that a step and a training run come to, counted."""
