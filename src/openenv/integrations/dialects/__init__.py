"""Environments of other standards: those of `verifiers` and of the Open Reward Standard, both ways."""

from openenv.integrations.dialects.names import dialect_app, dialect_spec

__all__ = ["dialect_app", "dialect_spec"]
