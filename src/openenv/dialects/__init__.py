"""Environments of other standards, `verifiers` and the Open Reward Standard, as environments of this one."""
