"""Servers, clients and actions by the name of their environment: `AutoEnv.from_env("echo")`."""

from openenv.auto.auto_action import AutoAction
from openenv.auto.auto_env import AutoEnv, make_vec

__all__ = ["AutoAction", "AutoEnv", "make_vec"]
