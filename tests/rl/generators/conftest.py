"""Tiny matrices are multiplied faster by one thread."""

from tests.rl.models.conftest import one_thread

__all__ = ["one_thread"]
