"""Programs that are run and scored by parts."""

from drill_env.client import DrillEnv
from drill_env.models import DrillAction, DrillObservation, DrillState

__all__ = ["DrillAction", "DrillEnv", "DrillObservation", "DrillState"]
