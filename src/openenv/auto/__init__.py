"""Environments and their actions by name: `AutoEnv.from_env("echo")`, `AutoAction.from_env("echo")`, `make_vec`."""

from openenv.auto.auto_action import AutoAction
from openenv.auto.auto_env import AutoEnv
from openenv.auto.vector import make_vec

__all__ = ["AutoAction", "AutoEnv", "make_vec"]
