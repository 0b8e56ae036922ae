"""The text interface of an environment that comes without one, from the schemas of its messages and its tools."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Self

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool, returned_value
from openenv.core.env_server.types import Action, Observation
from openenv.schema.legal_actions import as_action, legal_action_names, legal_actions
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import SchemaSampler
from openenv.text.action_forms import ActionForm, ChoiceForm, ToolForm, UnreadableReply, form_of
from openenv.text.constraints import ReplyConstraint
from openenv.text.content import Content, joined, text_of
from openenv.text.description import ObservationDescriber, value_text
from openenv.text.interface import History, TextInterface
from openenv.text.sentences import LISTED_REPLIES, legal_replies


class DerivedText(TextInterface[Action, Observation]):
    """Describes observations by their declared fields; reads replies by the schema of the actions.

    Legal actions that an observation names are the replies. Otherwise a reply is a choice where actions can be counted,
    the whole text or the only number where an action is one, else a JSON object; with tools, it is a tool call.
    Subclass it to change some of this: the class is then an environment's `text`.
    """

    history: History | None = None

    def __init__(
        self,
        action_class: type[Action],
        observation_class: type[Observation],
        description: str = "",
        tools: Sequence[Tool] = (),
    ) -> None:
        """description: the environment's own, of its rules. tools: those that an agent may call."""
        self._action_class = action_class
        self._description = description
        self._describer = ObservationDescriber(observation_class)
        self._form: ActionForm = ToolForm(tools) if tools else form_of(action_class)
        self._schema = message_schema(action_class)
        self._sample = SchemaSampler(self._schema, Random(0), simplest=True).sample()

    @classmethod
    def for_environment(
        cls, action_class: type[Action], observation_class: type[Observation], description: str, tools: Sequence[Tool]
    ) -> Self:
        """The instance for an environment with these messages and tools."""
        return cls(action_class, observation_class, description, tools)

    def instructions(self, observation: Observation) -> str:
        """The environment's own description, those of its fields, and how to write a reply."""
        form = LISTED_REPLIES if self._legal(observation) else self._form.instructions()
        parts = (self.rules(observation), form)
        return "\n".join(part for part in parts if part)

    def rules(self, observation: Observation) -> str:
        """The environment's own description, and those of its fields."""
        return "\n".join(part for part in (self._description, self._describer.explanation()) if part)

    def describe(self, observation: Observation) -> Content:
        """The fields of the observation. The legal actions follow where it names them."""
        if isinstance(observation, CallToolObservation):
            return _tool_result_text(observation)
        seen = self._describer.describe(observation)
        legal = self._legal(observation)
        return joined(seen, legal_replies(legal)) if legal else seen

    def replies(self, observation: Observation) -> Mapping[str, Action]:
        """The replies, where they can be counted."""
        return self._form_for(observation).choices()

    def constraint(self, observation: Observation) -> ReplyConstraint | None:
        """What a reply may be; None where it is free text."""
        return self._form_for(observation).constraint()

    def parse(self, reply: str, observation: Observation) -> Action | None:
        """The action that a reply names; None if it names none."""
        try:
            return self._form_for(observation).parse(reply)
        except UnreadableReply:
            return None

    def problem(self, reply: str, observation: Observation) -> str:
        """What is wrong with a reply, and what may be written instead."""
        try:
            self._form_for(observation).parse(reply)
        except UnreadableReply as error:
            return str(error)
        return ""

    def random_reply(self, observation: Observation, rng: Random) -> tuple[str, Action]:
        """A reply of random play and its action. Raises UnreadableReply for a schema that samples cannot meet."""
        form = self._form_for(observation)
        reply = form.random_reply(rng, text_of(self._describer.describe(observation)))
        try:
            return reply, form.parse(reply)
        except UnreadableReply as error:
            raise UnreadableReply(
                f"random play of {self._action_class.__name__} failed: {error} Give the field `examples` in its schema."
            ) from error

    def wording(self, action: Action, observation: Observation) -> str | None:
        """The reply that names an action."""
        try:
            return self._form_for(observation).wording(action)
        except UnreadableReply:
            return None

    def tools(self) -> list[dict[str, Any]]:
        """The tools that a model may call; none where a reply is no tool call."""
        return self._form.definitions() if isinstance(self._form, ToolForm) else []

    def functions(self, observation: Observation) -> list[Tool]:
        """The tools; the action as one function where it has several fields and the observation names no actions."""
        return self._form_for(observation).functions()

    def _form_for(self, observation: Observation) -> ActionForm:
        legal = self._legal(observation)
        return ChoiceForm(legal) if legal else self._form

    def _legal(self, observation: Observation) -> dict[str, Action]:
        """The replies of the legal actions that the observation names. A name that two share gets their numbers."""
        fields = {**dict(observation), **(observation.model_extra or {})}
        legal = legal_actions(fields, observation.metadata)
        names = [" ".join(str(name).split()) for name in legal_action_names(fields, observation.metadata)]
        if not legal or issubclass(self._action_class, CallToolAction):
            return {}
        if len(names) != len(legal):
            names = [str(entry) for entry in legal]
        shared = {name for name, count in Counter(names).items() if count > 1}
        return {
            f"{name} #{entry}" if name in shared else name: self._action_class.model_validate(
                as_action(entry, self._sample, self._schema)
            )
            for name, entry in zip(names, legal, strict=True)
        }


def _tool_result_text(observation: CallToolObservation) -> str:
    """What a tool has returned, or why it has not."""
    if observation.error is not None:
        return f"error: {observation.error.message}"
    return value_text(returned_value(observation.result))
