"""An environment that still runs on older releases."""

from .client import RelicEnv
from .models import RelicAction, RelicObservation

__all__ = ["RelicAction", "RelicEnv", "RelicObservation"]
