"""A ledger whose actions are one of several classes."""

from .client import LedgerEnv
from .models import LedgerObservation, Pay, Read

__all__ = ["LedgerEnv", "LedgerObservation", "Pay", "Read"]
