"""The text interface of an environment: describes observations to a language model and parses its replies."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Generic, Literal, Self

from typing_extensions import TypeVar

from openenv.core.env_server.mcp_types import Tool
from openenv.core.env_server.types import Action, Observation
from openenv.core.outcomes import declared_success
from openenv.text.constraints import ReplyConstraint
from openenv.text.content import Content
from openenv.text.reading import finished_in, named_in, said_in_full

ActT = TypeVar("ActT", bound=Action, default=Action)
ObsT = TypeVar("ObsT", bound=Observation, default=Observation)

History = Literal["latest", "full"]

_MORE = ("0", "x", " 7 8")
"""Ends of words, of numbers and of rows, after which a reply that was cut off may mean something else."""


class TextInterface(ABC, Generic[ActT, ObsT]):
    """Converts observations to text and replies to actions. An instance serves any number of episodes.

    A good description is a short sentence that names what matters and is visible to the player. What stays the same is
    in the instructions. A small model learns nothing from a grid of characters, but does from "Ball in row 3, column 1.
    Paddle in column 2." `openenv.text.derived` has the interface of environments that come without one.
    """

    history: History | None = "full"
    """Turns that a prompt shows: all (`full`), or the newest one if its description is complete (`latest`). None: all,
    and in training the newest alone if all are longer than prompts may be (`openenv.rl.shown_history`)."""
    success_return: float | None = None
    """The return from which an episode is a success, whatever the environment declares. None: what that declares."""

    @classmethod
    def for_environment(
        cls, action_class: type[Action], observation_class: type[Observation], description: str, tools: Sequence[Tool]
    ) -> Self:
        """The instance for an environment with these messages and tools. By default the class needs none of them.

        description: the environment's own, of its rules.
        """
        return cls()

    @abstractmethod
    def instructions(self, observation: ObsT) -> str:
        """The rules and the form of a reply: the system message."""

    @abstractmethod
    def describe(self, observation: ObsT) -> Content:
        """What the player sees now: the user message of this turn. A text, or parts of text and images."""

    @abstractmethod
    def replies(self, observation: ObsT) -> Mapping[str, ActT]:
        """The wording of each legal action, in the order of the legal actions; empty where they cannot be counted."""

    def constraint(self, observation: ObsT) -> ReplyConstraint | None:
        """What a reply may be; None where it is free text. By default it is one of `replies`, if there are any.

        Override it with None where `replies` are examples of more.
        """
        return ReplyConstraint.one_of(self.replies(observation))

    def parse(self, reply: str, observation: ObsT) -> ActT | None:
        """The action that `reply` names, or None if it names no legal action or several."""
        replies = self.replies(observation)
        named = named_in(reply, replies)
        return None if named is None else replies[named]

    def parse_cut_off(self, reply: str, observation: ObsT) -> ActT | None:
        """The action that a reply names whose end a limit of tokens has cut off, whatever would have followed.

        It is one of the counted replies, of which no other begins with it, or the answer between `<answer>` and
        `</answer>` or in `\\boxed{}`. Where replies cannot be counted, it is what more text would not change, such as a
        whole JSON object. None otherwise: `1` may have become `12`, and a text has no end.
        """
        answer, replies = said_in_full(reply), self.replies(observation)
        if answer is not None:
            return self.parse(answer, observation)
        if replies:
            named = finished_in(reply, replies)
            return None if named is None else replies[named]
        action = self.parse(reply, observation)
        changes = any(self.parse(reply + more, observation) != action for more in _MORE)
        return None if action is None or changes else action

    def problem(self, reply: str, observation: ObsT) -> str:
        """Why `parse` returned None: what is wrong, and what may be written instead."""
        return f"{reply!r:.200} names none of: {', '.join(self.replies(observation))}"

    def random_reply(self, observation: ObsT, rng: Random) -> tuple[str, ActT]:
        """A reply of random play and its action: each legal action has the same probability."""
        return rng.choice(list(self.replies(observation).items()))

    def wording(self, action: ActT, observation: ObsT) -> str | None:
        """The reply that names an action; None if no reply does."""
        return next((reply for reply, legal in self.replies(observation).items() if legal == action), None)

    def tools(self) -> list[dict[str, Any]]:
        """The tools that a model may call, as chat templates take them; none where a reply is no tool call."""
        return []

    def functions(self, observation: ObsT) -> list[Tool]:
        """The functions that a model behind an API may call now; none where its replies are texts.

        A call is parsed as the text that `openenv.text.action_forms.call_text` makes of it.
        """
        return []

    def rules(self, observation: ObsT) -> str:
        """The instructions to a model that is shown the functions: without the form of a reply, where that is known."""
        return self.instructions(observation)

    def situation(self, observation: ObsT) -> str | None:
        """The kind of decision, such as `hard 16`, by which reports count replies; None: not counted."""
        return None

    def success_of(self, first: ObsT) -> float | None:
        """The return from which the episode of a first observation is a success; None where nothing declares it."""
        return declared_success(first) if self.success_return is None else self.success_return
