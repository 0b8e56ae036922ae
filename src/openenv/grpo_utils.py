"""The names that the published tutorial imports from its `grpo_utils`, each from where it lives here."""

from openenv.evaluation import play_random_policy, show_openenv_observation

__all__ = ["play_random_policy", "show_openenv_observation"]
