"""The names that the published tutorial imports from `grpo_utils`."""

from openenv.evaluation import play_random_policy, show_openenv_observation
from openenv.rl.algorithm.advantages import ComputeAdvantages
from openenv.rl.algorithm.rewards import BlackJackReward
from openenv.rl.setup import setup_forge_training

__all__ = [
    "BlackJackReward",
    "ComputeAdvantages",
    "play_random_policy",
    "setup_forge_training",
    "show_openenv_observation",
]
