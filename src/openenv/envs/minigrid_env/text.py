"""Text interface of MiniGrid: the mission, what is in the way, and the things in sight."""

from openenv.core.env_server.types import Observation
from openenv.envs.minigrid_env.view import DIRECTIONS, View
from openenv.envs.space_text import with_pixels
from openenv.text.content import Content
from openenv.text.derived import DerivedText
from openenv.text.sentences import reply_with_one_of

_MOST_THINGS = 8
"""The nearest things are named."""
_RULES = (
    "Fulfil the mission. You see the cells ahead of you. Free counts the cells that you can walk in a direction. "
    "left and right turn; pickup, drop and toggle use the cell ahead; toggle opens doors and boxes, and unlocks a door "
    "if you carry its key."
)


class MiniGridText(DerivedText):
    """Describes the view in a few words. Replies are the names of the actions."""

    history = "latest"

    def instructions(self, observation: Observation) -> str:
        """The rules, and how to write a reply."""
        return f"{_RULES} {reply_with_one_of(self.replies(observation))}"

    def describe(self, observation: Observation) -> Content:
        """Such as `Mission: get to the goal. You face east. Free: ahead 2, left 0, right 1. Goal: ahead 2, right 1.`"""
        fields = vars(observation)
        view = View(fields["image"])
        free = f"ahead {view.num_free(0, 1)}, left {view.num_free(-1, 0)}, right {view.num_free(1, 0)}"
        parts = [f"Mission: {fields['mission']}. You face {DIRECTIONS[fields['direction']]}. Free: {free}."]
        if view.carried is not None:
            parts.append(f"You carry: {view.carried.words}.")
        for cell, ahead, right in list(view.things())[:_MOST_THINGS]:
            side = f", {'right' if right > 0 else 'left'} {abs(right)}" if right else ""
            parts.append(f"{cell.words.capitalize()}: ahead {ahead}{side}.")
        return with_pixels(" ".join(parts), fields["pixels"])
