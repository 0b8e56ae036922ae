"""Environments of other standards, `verifiers`, the Open Reward Standard and Harbor, as environments of this one."""
