"""Text interface of the wildfire environment: the fire, the wind and what is left in words, and the board below."""

from collections.abc import Mapping

from openenv.envs.wildfire_env.models import WildfireAction, WildfireObservation
from openenv.text.interface import TextInterface


class WildfireText(TextInterface[WildfireAction, WildfireObservation]):
    """Replies are `water ROW COLUMN`, `firebreak ROW COLUMN` and `wait`."""

    history = "latest"

    def instructions(self, observation: WildfireObservation) -> str:
        """The rules, and how to write a reply."""
        return (
            "Save the trees from the fire. Each step you act once, then fire spreads to trees beside it, most where "
            "the wind blows to, less into moist trees. Water puts out a burning cell. Fire does not cross water or a "
            "firebreak, which is cut in trees up to two cells from fire. On the board T is dry trees, t moist trees, "
            "* fire, # burnt, ~ wet, = firebreak. Fire lists row and column of each burning cell, from 0 at the top "
            "left. Reply with water, firebreak or wait, the first two with row and column: water 3 4, firebreak 2 5."
        )

    def describe(self, observation: WildfireObservation) -> str:
        """Such as `Wind: east. Water 6, firebreaks 6, trees 58. Fire: 3 4, 5 1.`, and the board."""
        seen = observation
        fire = ", ".join(f"{row} {column}" for row, column in seen.burning) or "out"
        left = f"Water {seen.water}, firebreaks {seen.firebreaks}, trees {seen.trees}."
        words = f"Wind: {seen.wind}. {left} Fire: {fire}."
        return f"{words}\n{seen.board}"

    def replies(self, observation: WildfireObservation) -> Mapping[str, WildfireAction]:
        """A reply for each legal action."""
        actions = [WildfireAction.model_validate(fields) for fields in observation.legal_actions]
        return {_wording(action): action for action in actions}

    def problem(self, reply: str, observation: WildfireObservation) -> str:
        """Why a reply names no action."""
        near = ", ".join(list(self.replies(observation))[:5])
        return f"{reply!r:.200} names no legal action, or several. The first legal ones are: {near}"


def _wording(action: WildfireAction) -> str:
    return action.kind if action.kind == "wait" else f"{action.kind} {action.row} {action.column}"
