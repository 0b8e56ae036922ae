"""The text interface of an environment: describes observations to a language model and parses its replies."""

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
    """Converts observations to text and replies to actions. An instance has no state: it serves any number of episodes.

    A good description is short, and names what matters and is visible to the player. A small model learns nothing from
    a grid of characters, but does from "ball row 3 column 1, paddle column 2".
    """

    history: ClassVar[History] = "full"
    """Turns that a prompt shows: all (`full`), or the newest one if its description is complete (`latest`)."""

    @abstractmethod
    def instructions(self, observation: ObsT) -> str:
        """The rules and the form of a reply: the system message."""

    @abstractmethod
    def describe(self, observation: ObsT) -> str:
        """What the player sees now: the user message of this turn."""

    @abstractmethod
    def replies(self, observation: ObsT) -> Mapping[str, ActT]:
        """The wording of each legal action, in the order of the legal actions."""

    def parse(self, reply: str, observation: ObsT) -> ActT | None:
        """The action that `reply` names, or None if it names no legal action or several."""
        replies = self.replies(observation)
        words = " ".join(reply.lower().split())
        for wording, action in replies.items():
            if words == wording.lower():
                return action
        named = {wording for wording in replies if re.search(rf"(?<!\w){re.escape(wording.lower())}(?!\w)", words)}
        return replies[named.pop()] if len(named) == 1 else None

    def situation(self, observation: ObsT) -> str | None:
        """The kind of decision, such as `hard 16`, by which reports count replies; None: not counted."""
        return None

    def outcome(self, total_reward: float) -> str:
        """The outcome of an episode: `won`, `lost` or `push`, by the sign of its total reward."""
        return "won" if total_reward > 0 else "lost" if total_reward < 0 else "push"
