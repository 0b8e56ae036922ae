"""How an environment reads to a language model, and how the model's reply becomes an action."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, Literal

from typing_extensions import TypeVar

from openenv.core.env_server.types import Action, Observation

ActT = TypeVar("ActT", bound=Action, default=Action)
ObsT = TypeVar("ObsT", bound=Observation, default=Observation)

History = Literal["latest", "full"]


class TextInterface(ABC, Generic[ActT, ObsT]):
    """Turns observations into messages and replies into actions. One instance serves any number of episodes.

    A good description names what matters, briefly, and only what the player may see: a small model learns nothing from
    a grid of characters and everything from "ball row 3 column 1, paddle column 2".
    """

    history: ClassVar[History] = "full"
    """`latest` when each description says all that the player knows, so that earlier turns need not be shown again."""

    @abstractmethod
    def instructions(self, observation: ObsT) -> str:
        """The rules and the form of a reply: a system message for a model that has read about the world."""

    @abstractmethod
    def describe(self, observation: ObsT) -> str:
        """What the player sees now, as a person would say it: the user message of this turn."""

    @abstractmethod
    def replies(self, observation: ObsT) -> Mapping[str, ActT]:
        """The wording of each legal action, in the order of the legal actions."""

    def parse(self, reply: str, observation: ObsT) -> ActT | None:
        """The action that `reply` names, or None when it names no legal action or more than one."""
        replies = self.replies(observation)
        said = " ".join(reply.lower().split())
        for wording, action in replies.items():
            if said == wording.lower():
                return action
        named = {wording for wording in replies if re.search(rf"(?<!\w){re.escape(wording.lower())}(?!\w)", said)}
        return replies[named.pop()] if len(named) == 1 else None

    def situation(self, observation: ObsT) -> str | None:
        """The kind of decision this is (`hard 16`), under which reports count the actions taken; None: not counted."""
        return None

    def outcome(self, total_reward: float) -> str:
        """One word for how an episode ended: `won`, `lost` or `push`, by the sign of its total reward."""
        return "won" if total_reward > 0 else "lost" if total_reward < 0 else "push"
