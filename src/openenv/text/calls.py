"""Reads calls of functions as models write them: JSON of several shapes, tags, and Python's calls with keywords."""

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from openenv.text.objects import object_at, objects_in
from openenv.text.reading import unwrapped

_NAMES = ("name", "tool_name", "tool", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "params")
_BEFORE_ARGUMENTS = re.compile(
    r"(?:<function=(?P<tag>[\w.-]+)>|\bAction:[ \t]*(?P<react>[\w.-]+)[ \t]*\n[ \t]*Action Input:"
    r"|<｜tool▁sep｜>(?P<sep>[\w.-]+))\s*(?:```(?:json)?\s*)?(?=\{)"
)
"""How Llama, ReAct and DeepSeek write the name of a function before its arguments."""
_TAGGED = re.compile(
    r"<function=([\w.-]+)>\s*((?:<parameter=(?:(?!</parameter>|<function=).)*</parameter>\s*)*)</function>", re.DOTALL
)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
"""How Qwen3-Coder writes a call."""


def call_of(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """An object as a call, with `name` and `arguments`; None for another one. The names of the two keys differ by API.

    Arguments may be JSON as text; without any, there are none.
    """
    inner = entry.get("function")
    if isinstance(inner, Mapping):
        return call_of(inner)
    name = next((entry[key] for key in _NAMES if isinstance(entry.get(key), str)), None)
    given = [entry[key] for key in _ARGUMENTS if key in entry]
    if name is None or len(given) > 1 or ("name" not in entry and not given):
        return None
    arguments = given[0] if given and given[0] not in (None, "") else {}
    if isinstance(arguments, str):
        arguments = next(objects_in(arguments), None)
    return {"name": name, "arguments": arguments} if isinstance(arguments, dict) else None


def calls_of(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls of an object, which is one or has a list of them, as a message of the OpenAI API has."""
    listed = entry.get("tool_calls")
    entries = [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else [entry]
    return [call for part in entries if (call := call_of(part)) is not None]


def written_calls(reply: str, names: Collection[str]) -> Iterator[dict[str, Any]]:
    """The calls in a reply that are no JSON objects of a name and arguments: tags, and Python's of known names.

    A call without arguments is the whole reply: among words, `stop()` only names the function.
    """
    end = 0
    while match := _BEFORE_ARGUMENTS.search(reply, end):
        arguments, end = object_at(reply, match.end())
        if arguments is not None:
            yield {"name": match[str(match.lastgroup)], "arguments": arguments}
    for match in _TAGGED.finditer(reply):
        arguments = {name: _value(text) for name, text in _PARAMETER.findall(match[2])}
        yield {"name": match[1], "arguments": arguments}
    known, alone = "|".join(map(re.escape, names)), unwrapped(reply).strip("[]")
    for match in re.finditer(rf"(?<![\w.])({known})(\([^()]*\))", reply):
        arguments = _keywords(match[2])
        if arguments or (arguments == {} and alone == match[0]):
            yield {"name": match[1], "arguments": arguments}


def _value(text: str) -> Any:
    """JSON, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _keywords(written: str) -> dict[str, Any] | None:
    """The keywords of a call's brackets; None where it has others than keywords of literal values."""
    try:
        call = ast.parse(f"call{written}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            return None
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
