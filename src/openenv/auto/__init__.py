"""Environments and their actions by name: `AutoEnv.from_env("echo")`, `AutoAction.from_env("echo")`."""

from openenv.auto.auto_action import AutoAction
from openenv.auto.auto_env import AutoEnv

__all__ = ["AutoAction", "AutoEnv"]
