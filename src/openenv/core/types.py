"""`StepResult` under the module name that early tutorials import it from."""

from openenv.core.client_types import StepResult

__all__ = ["StepResult"]
