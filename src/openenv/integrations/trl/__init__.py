"""Environments for TRL's GRPOTrainer: as classes of tools, or played by a rollout function."""

from openenv.integrations.trl.environment_factory import ToolEnvironment, as_environment_factory
from openenv.integrations.trl.older_contract import adapt_rollout_func
from openenv.integrations.trl.rollout_func import EpisodesFailed, RolloutFunc, make_rollout_func, reward_from_env

__all__ = [
    "EpisodesFailed",
    "RolloutFunc",
    "ToolEnvironment",
    "adapt_rollout_func",
    "as_environment_factory",
    "make_rollout_func",
    "reward_from_env",
]
