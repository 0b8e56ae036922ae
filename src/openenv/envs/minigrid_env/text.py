"""Text interface of MiniGrid: the mission, what is in the way, and the things in sight."""

from typing import ClassVar

from openenv.core.env_server.types import Observation
from openenv.core.text.content import Content
from openenv.core.text.derived import DerivedText
from openenv.core.text_interface import History
from openenv.envs.minigrid_env.view import DIRECTIONS, View
from openenv.envs.space_text import with_pixels

_MOST_THINGS = 8
"""The nearest things are named."""
_RULES = (
    "Fulfil the mission . You see the cells ahead of you . free counts the cells that you can walk . pickup , drop and "
    "toggle use the cell ahead ; toggle opens doors and boxes , and unlocks a door if you carry its key ."
)


class MiniGridText(DerivedText):
    """Describes the view in a few words. Replies are the names of the actions."""

    history: ClassVar[History] = "latest"

    def instructions(self, observation: Observation) -> str:
        """The rules, and how to write a reply."""
        return f"{_RULES} Reply with one of these: {' , '.join(self.replies(observation))}"

    def describe(self, observation: Observation) -> Content:
        """Such as `mission get to the goal facing east free 2 left 0 right 1 , goal ahead 2 right 1`."""
        fields = vars(observation)
        view = View(fields["image"])
        free = f"free {view.num_free(0, 1)} left {view.num_free(-1, 0)} right {view.num_free(1, 0)}"
        parts = [f"mission {fields['mission']} facing {DIRECTIONS[fields['direction']]} {free}"]
        if view.carried is not None:
            parts.append(f"carrying {view.carried.words}")
        for cell, ahead, right in list(view.things())[:_MOST_THINGS]:
            side = f" {'right' if right > 0 else 'left'} {abs(right)}" if right else ""
            parts.append(f"{cell.words} ahead {ahead}{side}")
        return with_pixels(" , ".join(parts), fields["pixels"])
