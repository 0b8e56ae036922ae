"""Evaluation: plays episodes with policies and tells how they did, with honest intervals.

`openenv.evaluation.plot` draws the results; it is a module of its own since it loads matplotlib.
"""

from openenv.evaluation.competition import evaluate, play_random_policy
from openenv.evaluation.display import show_openenv_observation
from openenv.evaluation.episode import Episode
from openenv.evaluation.play import play_episodes
from openenv.evaluation.summary import Summary, summarize
from openenv.evaluation.table import medal_table

__all__ = [
    "Episode",
    "Summary",
    "evaluate",
    "medal_table",
    "play_episodes",
    "play_random_policy",
    "show_openenv_observation",
    "summarize",
]
