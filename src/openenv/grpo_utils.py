"""The names that the published tutorial imports from its `grpo_utils`, each from where it lives here."""

from openenv.evaluation import play_random_policy, show_openenv_observation
from openenv.rl.advantages import ComputeAdvantages
from openenv.rl.reward import BlackJackReward
from openenv.rl.setup import setup_forge_training

__all__ = [
    "BlackJackReward",
    "ComputeAdvantages",
    "play_random_policy",
    "setup_forge_training",
    "show_openenv_observation",
]
