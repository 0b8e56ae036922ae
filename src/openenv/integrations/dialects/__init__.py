"""Environments of this package, served and played over other standards: the Open Reward Standard and `verifiers`."""
