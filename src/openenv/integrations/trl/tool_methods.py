"""Methods that make an environment's actions, as TRL shows them to a model: typed, documented, one for each kind."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.env_server.types import Action
from openenv.formats.json_text import json_text
from openenv.schema.message_schema import NOW, message_schema
from openenv.schema.samples import resolved

RESERVED = frozenset({"reset", "get_reward"})
"""Methods that TRL does not show to a model."""
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNSET: Any = inspect.Parameter.empty

ToolMethod = Callable[..., str]
MakeAction = Callable[[dict[str, Any]], Action]


def methods_of_tools(tools: tuple[Tool, ...]) -> dict[str, ToolMethod]:
    """A method for each MCP tool. Raises ValueError for a name that TRL keeps for itself."""
    return {tool.name: _method(tool.name, tool.description, tool.input_schema, _call_of(tool.name)) for tool in tools}


def method_of_action(action_class: type[Action], description: str) -> dict[str, ToolMethod]:
    """The method that makes actions of a class, by the class's name without `Action`: `grid_world` of GridWorldAction.

    description: what it does, where the class has no docstring of its own.
    """
    name = _CASE.sub("_", action_class.__name__.removesuffix("Action")).lower() or "step"
    documented = inspect.cleandoc(action_class.__doc__ or "") or description
    return {name: _method(name, documented, message_schema(action_class), action_class.model_validate)}


def arguments_text(action: Action, name: str) -> str:
    """An action as the call that makes it: `guess(number=3)`. Arguments that have their default are left out."""
    if isinstance(action, CallToolAction):
        return f"{action.tool_name}({_keywords(action.arguments)})"
    fields = action.model_dump(mode="json", exclude_defaults=True, exclude={"metadata"})
    return f"{name}({_keywords(fields)})"


def takes_free_text(method: ToolMethod) -> bool:
    """Whether a required argument of a method is a text that is not one of a few."""
    parameters = inspect.signature(method).parameters.values()
    free = {p.name for p in parameters if p.annotation is str and p.default is _UNSET}
    lines = (method.__doc__ or "").splitlines()
    return any(line.strip().startswith(f"{name}:") and "(choices:" not in line for line in lines for name in free)


def _keywords(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={json_text(value, ensure_ascii=False)}" for key, value in fields.items())


def _call_of(name: str) -> MakeAction:
    return lambda arguments: CallToolAction(tool_name=name, arguments=arguments)


def _method(name: str, description: str, schema: Mapping[str, Any], make: MakeAction) -> ToolMethod:
    """The method of a kind of action. transformers reads its signature, annotations and docstring."""
    if name in RESERVED or name.startswith("_") or not name.isidentifier():
        raise ValueError(f"tool {name!r}: TRL cannot show a method of this name to a model. Rename the tool.")

    def method(self: Any, **arguments: Any) -> str:
        shown: str = self._act(make, arguments)
        return shown

    parameters = list(_parameters(schema))
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__name__ = method.__qualname__ = name
    method.__signature__ = inspect.Signature([own, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    method.__annotations__ = {**{p.name: p.annotation for p in parameters}, "return": str}
    method.__doc__ = _docstring(description or name, schema, parameters)
    return method


def _parameters(schema: Mapping[str, Any]) -> Iterator[inspect.Parameter]:
    """A keyword for each field, the required ones first. `metadata` is no argument."""
    fields = {name: resolved(schema, part) for name, part in schema.get("properties", {}).items() if name != "metadata"}
    required = set(schema.get("required", ()))
    for name in sorted(fields, key=lambda name: name not in required):
        is_required = name in required
        annotation: Any = _type_of(fields[name])
        default = fields[name].get("default")
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_UNSET if is_required else default,
            annotation=annotation if is_required or default is not None else annotation | None,
        )


def _type_of(field: Mapping[str, Any]) -> type:
    """The Python type of a field; of several types the first that is no null."""
    kinds = [field.get("type"), *(option.get("type") for option in field.get("anyOf", ()))]
    values = field.get("enum") or ([field["const"]] if "const" in field else [])
    named = next((kind for kind in kinds if isinstance(kind, str) and kind != "null"), None)
    if named is None and values:
        return type(values[0])
    return _TYPES.get(str(named), dict)


def _docstring(description: str, schema: Mapping[str, Any], parameters: list[inspect.Parameter]) -> str:
    """What transformers' `get_json_schema` reads: a description, and a line for each argument."""
    lines = [" ".join(description.split()), "", "Args:"] if parameters else [" ".join(description.split()), ""]
    for parameter in parameters:
        field = resolved(schema, schema["properties"][parameter.name])
        values = field.get("enum") or ([field["const"]] if "const" in field else None)
        text = " ".join(str(field.get("description") or field.get("title") or parameter.name).split())
        choices = f" (choices: {json_text(values)})" if values else ""
        lines.append(f"    {parameter.name}: {text}{_range_of(field)}{choices}")
    return "\n".join([*lines, *([""] if parameters else []), "Returns:", "    What follows the action, as text."])


def _range_of(field: Mapping[str, Any]) -> str:
    limits = {"minimum": "at least", "maximum": "at most", "maxLength": "characters at most", NOW: "in the"}
    found = [f"{words} {field[key]}" for key, words in limits.items() if key in field]
    return f", {', '.join(found)}" if found else ""
