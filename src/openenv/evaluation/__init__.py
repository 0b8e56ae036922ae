"""Evaluation: plays episodes with policies and reports rates and means with 95 % intervals.

`openenv.evaluation.plots` draws the results. It is imported separately because it loads matplotlib.
"""

from openenv.evaluation.episodes import EpisodePlayer, EpisodeRunner, PendingAction
from openenv.evaluation.evaluator import evaluate, play_episodes, play_random_policy
from openenv.evaluation.intervals import EpisodeResult, Summary, summarize
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.evaluation.tables import medal_table, replies_table, show_openenv_observation

__all__ = [
    "EpisodeObserver",
    "EpisodePlayer",
    "EpisodeResult",
    "EpisodeRunner",
    "PendingAction",
    "Summary",
    "evaluate",
    "medal_table",
    "play_episodes",
    "play_random_policy",
    "replies_table",
    "show_openenv_observation",
    "summarize",
]
