"""Climb to a step that the seed names."""

from .client import StairsEnv
from .models import StairsAction, StairsObservation, StairsState

__all__ = ["StairsAction", "StairsEnv", "StairsObservation", "StairsState"]
