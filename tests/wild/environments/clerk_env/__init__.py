"""A conversation as token ids."""

from .client import ClerkEnv
from .models import ClerkAction, ClerkObservation, ClerkState

__all__ = ["ClerkAction", "ClerkEnv", "ClerkObservation", "ClerkState"]
