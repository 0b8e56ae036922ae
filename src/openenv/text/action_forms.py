"""The forms in which a reply names an action: a choice, a number, the whole reply, a JSON object, or a tool call."""

import contextlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from pydantic import ValidationError

from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.env_server.types import Action
from openenv.formats.json_text import json_text
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import SchemaSampler, resolved, words_of
from openenv.text.calls import call_of, calls_of, written_calls
from openenv.text.constraints import ReplyConstraint
from openenv.text.fields import fields_text, limits
from openenv.text.objects import objects_in
from openenv.text.reading import final_answer, named_in, number_in, texts_in, unwrapped
from openenv.text.sentences import reply_with_one_of

_MOST_CHOICES = 1000
_MOST_DISTINCT = 100
_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TOOL_CALL = ("<tool_call>", "</tool_call>")
"""The marks that Qwen's and many other chat templates put around a call."""


_CALL_KEYS = {"name", "arguments", "parameters", "function", "type", "id"}
"""The keys of an object that is a call and no action."""


class UnreadableReply(ValueError):
    """A reply names no action. The message has the reason and the replies that are possible."""


class ActionForm(ABC):
    """One way in which replies name the actions of a class."""

    @abstractmethod
    def instructions(self) -> str:
        """How to write a reply, in a sentence or two."""

    @abstractmethod
    def parse(self, reply: str) -> Action:
        """The action that a reply names. Raises UnreadableReply."""

    @abstractmethod
    def random_reply(self, rng: Random, seen: str) -> str:
        """A reply of random play. seen: the description of the observation."""

    @abstractmethod
    def wording(self, action: Action) -> str:
        """The reply that names an action."""

    def choices(self) -> Mapping[str, Action]:
        """The action of each reply, where they can be counted; else nothing."""
        return {}

    def constraint(self) -> ReplyConstraint | None:
        """What a reply may be; None where it is free text."""
        return ReplyConstraint.one_of(self.choices())

    def functions(self) -> list[Tool]:
        """The functions whose calls make actions; none where a reply is a text. `call_text` makes replies of calls."""
        return []


class ChoiceForm(ActionForm):
    """A reply names one of a few actions."""

    def __init__(self, choices: Mapping[str, Action]) -> None:
        self._choices = choices

    def instructions(self) -> str:
        """The list of replies, or the range of numbers."""
        names = list(self._choices)
        are_numbers = all(name.lstrip("-").isdigit() for name in names) and len(names) > 2
        if are_numbers and [int(name) for name in names] == list(range(int(names[0]), int(names[-1]) + 1)):
            return f"Reply with a whole number from {names[0]} to {names[-1]}."
        return reply_with_one_of(names)

    def parse(self, reply: str) -> Action:
        """The action of the choice that the reply names."""
        named = named_in(reply, self._choices)
        if named is None:
            raise UnreadableReply(f"{reply!r:.200} names none of the actions, or several. {self.instructions()}")
        return self._choices[named]

    def random_reply(self, rng: Random, seen: str) -> str:
        """Each with the same probability."""
        return rng.choice(list(self._choices))

    def wording(self, action: Action) -> str:
        """The first reply of the action. Raises UnreadableReply if it is not among the choices."""
        for reply, choice in self._choices.items():
            if choice == action:
                return reply
        raise UnreadableReply(f"{action!r} is not among the actions")

    def choices(self) -> Mapping[str, Action]:
        """All of them."""
        return self._choices


class FieldForm(ActionForm):
    """The whole reply is the text of an action's only field, or the number in it is the field's value."""

    def __init__(self, action_class: type[Action], field: str, schema: Mapping[str, Any]) -> None:
        """schema: of the field."""
        self._action_class = action_class
        self._field = field
        self._schema = schema
        self._is_text = schema.get("type") == "string"

    def instructions(self) -> str:
        """What the reply stands for, with the field's limits."""
        described = self._schema.get("description") or self._field
        said = f"{described}{limits(self._schema)}".removesuffix(".")
        return f"{'Your whole reply is this text' if self._is_text else 'Reply with one number'}: {said}."

    def parse(self, reply: str) -> Action:
        """The action with the reply, or the number that it names, as the field.

        A text that the field refuses may be meant without the punctuation after it, or in small or capital letters.
        """
        if not self._is_text:
            number = number_in(reply)
            if number is None:
                raise UnreadableReply(f"{reply!r:.200} names no number, or several. {self.instructions()}")
            return self._of(number)
        first, *others = texts_in(self._own_text(reply))
        if not first:
            raise UnreadableReply(f"the reply is empty. {self.instructions()}")
        try:
            return self._of(first)
        except UnreadableReply:
            for text in others:
                with contextlib.suppress(UnreadableReply):
                    return self._of(text)
            raise

    def _own_text(self, reply: str) -> str:
        """The field's text in a reply that is a JSON object of the field alone; another reply itself."""
        plain = unwrapped(reply)
        found = list(objects_in(plain)) if plain.startswith("{") and plain.endswith("}") else []
        value = found[0].get(self._field) if len(found) == 1 and len(found[0]) == 1 else None
        return value if isinstance(value, str) else reply

    def _of(self, value: str) -> Action:
        return _validated(self._action_class, {self._field: value}, self.instructions())

    def constraint(self) -> ReplyConstraint | None:
        """A number that the schema allows; a text is free."""
        return None if self._is_text else ReplyConstraint.json_of(self._schema)

    def random_reply(self, rng: Random, seen: str) -> str:
        """A value that the schema allows. Text without limits is one or two words of what was seen."""
        return str(SchemaSampler(self._schema, rng, words=words_of(seen)).sample())

    def wording(self, action: Action) -> str:
        """The field's value, as JSON has it."""
        return str(action.model_dump(mode="json")[self._field])


class JsonForm(ActionForm):
    """A reply contains the action's fields as one JSON object."""

    def __init__(self, action_class: type[Action]) -> None:
        self._action_class = action_class
        self._schema = message_schema(action_class)
        self._name = _CASE.sub("_", action_class.__name__.removesuffix("Action")).lower() or "step"

    def instructions(self) -> str:
        """The fields with their types, limits and descriptions, and an example."""
        fields = f"Reply with a JSON object of these fields:\n{fields_text(self._schema)}"
        example = SchemaSampler(self._schema, Random(0), simplest=True).sample()
        try:
            self._action_class.model_validate(example)
        except ValidationError:  # for a rule that schemas cannot express
            return fields
        return f"{fields}\nExample: {json_text(example, ensure_ascii=False)}"

    def parse(self, reply: str) -> Action:
        """The action of the JSON object in the reply, which may be a call of the function of `functions`.

        Objects without a field of the action, such as a repeated observation, are not counted beside one that has some.
        Equal objects are one; different ones name no action.
        """
        found = _distinct(_called(entry, self._name) for entry in _objects(reply))
        meant = [entry for entry in found if entry.keys() & self._schema.get("properties", {}).keys()] or found
        if len(meant) != 1:
            kind = f"{len(meant)} different JSON objects, of which one can be played" if meant else "no JSON object"
            raise UnreadableReply(f"{reply!r:.200} contains {kind}. {self.instructions()}")
        return _validated(self._action_class, meant[0], self.instructions())

    def constraint(self) -> ReplyConstraint:
        """An object of the action's fields."""
        return ReplyConstraint.json_of(_closed(self._schema, self._schema.get("properties", {})))

    def random_reply(self, rng: Random, seen: str) -> str:
        """An object that the schema allows, with each optional field in half of the replies.

        Where the class refuses it, for a rule that schemas cannot express, the reply has the required fields alone.
        Texts without limits are one or two words of what was seen.
        """
        words = words_of(seen)
        fields = SchemaSampler(self._schema, rng, optional=True, words=words).sample()
        try:
            self._action_class.model_validate(fields)
        except ValidationError:
            fields = SchemaSampler(self._schema, rng, words=words).sample()
        return json_text(fields, ensure_ascii=False)

    def wording(self, action: Action) -> str:
        """The fields that were set."""
        fields = action.model_dump(mode="json", exclude_unset=True, exclude={"metadata"})
        return json_text(fields, ensure_ascii=False)

    def functions(self) -> list[Tool]:
        """One function, whose arguments are the action's fields."""
        fields = {name: part for name, part in self._schema.get("properties", {}).items() if name != "metadata"}
        description = inspect.cleandoc(self._action_class.__doc__ or "") or f"Take the action {self._name}."
        return [Tool(name=self._name, description=description, input_schema={**self._schema, "properties": fields})]


class ToolForm(ActionForm):
    """A reply contains one tool call: an object with `name` and `arguments`, with or without marks around it."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def instructions(self) -> str:
        """The tools with their arguments, and an example of a call."""
        tools = "\n".join(f"{tool.name}: {tool.description}\n{fields_text(tool.input_schema)}" for tool in self._all)
        shown = next((tool for tool in self._all if tool.input_schema.get("required")), self._all[0])
        example = call_text(shown.name, SchemaSampler(shown.input_schema, Random(0), simplest=True).sample())
        return f"Call one of these tools:\n{tools}\nReply with one call, such as: {example}"

    @property
    def _all(self) -> list[Tool]:
        return list(self._tools.values())

    def parse(self, reply: str) -> Action:
        """The call in the reply, in any of the forms of `openenv.text.calls`.

        Equal calls are one. Different ones name no action, because an environment takes one at a time.
        """
        calls = _distinct(call for entry in _objects(reply) for call in calls_of(entry))
        calls = calls or _distinct(written_calls(reply, self._tools))
        if len(calls) != 1:
            kind = f"{len(calls)} different tool calls, of which one can be made" if calls else "no tool call"
            raise UnreadableReply(f"{reply!r:.200} contains {kind}. {self.instructions()}")
        return self._checked(calls[0]["name"], calls[0]["arguments"])

    def constraint(self) -> ReplyConstraint:
        """A call of one of the tools, without marks around it."""
        parts = {name: part for tool in self._all for name, part in tool.input_schema.get("$defs", {}).items()}
        return ReplyConstraint.json_of({"$defs": parts, "anyOf": [_call_schema(tool) for tool in self._all]})

    def random_reply(self, rng: Random, seen: str) -> str:
        """Each tool with the same probability, with arguments that its schema allows, as in `JsonForm`."""
        tool = rng.choice(self._all)
        return call_text(tool.name, SchemaSampler(tool.input_schema, rng, optional=True, words=words_of(seen)).sample())

    def wording(self, action: Action) -> str:
        """The call between its marks."""
        assert isinstance(action, CallToolAction)
        return call_text(action.tool_name, action.arguments)

    def functions(self) -> list[Tool]:
        """All tools."""
        return self._all

    def definitions(self) -> list[dict[str, Any]]:
        """The tools as chat templates take them."""
        return [definition(tool) for tool in self._all]

    def _checked(self, name: str, arguments: dict[str, Any]) -> CallToolAction:
        tool = self._tools.get(name)
        if tool is None:
            raise UnreadableReply(f"there is no tool {name!r:.80}. Tools: {', '.join(self._tools)}")
        missing = [key for key in tool.input_schema.get("required", ()) if key not in arguments]
        if missing:
            raise UnreadableReply(f"{name} needs {', '.join(missing)}:\n{fields_text(tool.input_schema)}")
        return CallToolAction(tool_name=name, arguments=arguments)


def chosen_fields(action_class: type[Action]) -> dict[str, Any]:
    """The schemas of the fields that a policy may choose: without metadata, and those that have one value alone."""
    parts = message_schema(action_class).get("properties", {})
    return {
        name: part for name, part in parts.items() if name != "metadata" and not {"const", "default"} <= part.keys()
    }


def form_of(action_class: type[Action]) -> ActionForm:
    """The form of a class of actions: by choice, number or text where one field decides, else as JSON.

    The deciding field is the only required one, or the only one. A choice among words is often a command, whose
    arguments are the optional fields: with such fields, replies are JSON.
    """
    schema = message_schema(action_class)
    properties = chosen_fields(action_class)
    required = [name for name in schema.get("required", ()) if name in properties]
    if not properties and not schema.get("additionalProperties", True):
        return ChoiceForm({"next": action_class()})
    deciding = required if required else list(properties)
    if len(deciding) != 1:
        return JsonForm(action_class)
    field = deciding[0]
    part = resolved(schema, properties[field])
    if "enum" in part and len(properties) > 1:
        return JsonForm(action_class)
    values = _counted_values(part)
    if values is not None:
        try:
            return ChoiceForm({_word(value): action_class.model_validate({field: value}) for value in values})
        except ValidationError:  # some of them need other fields
            return JsonForm(action_class)
    if part.get("type") in ("string", "integer", "number"):
        return FieldForm(action_class, field, part)
    return JsonForm(action_class)


def _counted_values(schema: Mapping[str, Any]) -> list[Any] | None:
    """The values of a field, if they are few."""
    if "const" in schema:
        return [schema["const"]]
    if schema.get("enum"):
        return list(schema["enum"])
    if schema.get("type") == "boolean":
        return [True, False]
    low = schema.get("minimum", schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else None)
    high = schema.get("maximum", schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else None)
    if schema.get("type") != "integer" or low is None or high is None or high - low >= _MOST_CHOICES:
        return None
    return list(range(int(low), int(high) + 1, int(schema.get("multipleOf", 1))))


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _closed(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of an object with these properties, but for its metadata, and no others."""
    chosen = {name: part for name, part in properties.items() if name != "metadata"}
    return {**schema, "type": "object", "properties": chosen, "additionalProperties": False}


def _call_schema(tool: Tool) -> dict[str, Any]:
    """The schema of a call of a tool."""
    arguments = _closed(tool.input_schema, tool.input_schema.get("properties", {}))
    fields = {"name": {"const": tool.name}, "arguments": arguments}
    return {**_closed({}, fields), "required": list(fields)}


def _validated(action_class: type[Action], fields: Mapping[str, Any], remedy: str) -> Action:
    try:
        return action_class.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors()[:5])
        raise UnreadableReply(f"{problems}. {remedy}") from error


def _objects(reply: str) -> list[dict[str, Any]]:
    """The JSON objects of the marked answer; those of the whole reply where none is in it."""
    return list(objects_in(final_answer(reply))) or list(objects_in(reply))


def _distinct(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects that differ, up to a number of which a reply can mean none."""
    found: list[dict[str, Any]] = []
    for entry in objects:
        found += [] if entry in found else [entry]
        if len(found) == _MOST_DISTINCT:
            break
    return found


def _called(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """The arguments of a call of the function with this name; another object itself."""
    call = call_of(entry) if entry.keys() <= _CALL_KEYS else None
    return entry if call is None or call["name"] != name else call["arguments"]


def definition(tool: Tool) -> dict[str, Any]:
    """A tool as chat templates and the OpenAI API take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def call_text(name: str, arguments: Any) -> str:
    """The reply that calls a function."""
    call = json_text({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"{_TOOL_CALL[0]} {call} {_TOOL_CALL[1]}"
