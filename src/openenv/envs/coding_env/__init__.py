"""Python programs in a sandbox, with tests that they can neither read nor forge."""

from openenv.envs.coding_env.client import CodingEnv
from openenv.envs.coding_env.models import CodeAction, CodeObservation, CodeState, CodeTest

__all__ = ["CodeAction", "CodeObservation", "CodeState", "CodeTest", "CodingEnv"]
