"""The generators of a training run beside each other."""
