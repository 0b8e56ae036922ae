"""Text interface of the web tasks: the goal and the elements of the page, and replies such as `click(3)`."""

import ast
import re
from collections.abc import Mapping
from itertools import islice
from random import Random
from typing import Any, get_args

from pydantic import ValidationError

from openenv.envs.browser_env.models import HEIGHT, WIDTH, BrowserAction, BrowserObservation, Kind, PageElement
from openenv.text.content import Content, image_part, joined
from openenv.text.interface import TextInterface
from openenv.text.reading import final_answer, last_block

_FORMS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("click", ("ref",)),
    ("click", ("x", "y")),
    ("dblclick", ("ref",)),
    ("dblclick", ("x", "y")),
    ("hover", ("ref",)),
    ("hover", ("x", "y")),
    ("drag_and_drop", ("ref", "to_ref")),
    ("drag_and_drop", ("ref", "to_x", "to_y")),
    ("drag_and_drop", ("x", "y", "to_x", "to_y")),
    ("fill", ("ref", "text")),
    ("type", ("text",)),
    ("type", ("ref", "text")),
    ("press", ("key",)),
    ("press", ("ref", "key")),
    ("select_option", ("ref", "option")),
    ("scroll", ("delta_y",)),
    ("scroll", ("ref", "delta_y")),
    ("scroll", ("x", "y", "delta_y")),
    ("noop", ()),
)
"""The fields that a call's arguments are, by the kind and their number."""
_BY_LENGTH = {(str(kind), len(fields)): fields for kind, fields in _FORMS}
_STRING = r'"(?:\\.|[^"\\])*"|' + r"'(?:\\.|[^'\\])*'"
_BEGIN = re.compile(rf"\b({'|'.join(get_args(Kind))})\(")
_ARGUMENTS = re.compile(rf"((?:[^()\"']|{_STRING})*)\)", re.DOTALL)
_MOST_CALLS = 100
"""Beginnings of calls that a reply may have: the end of each is looked for in the whole reply."""
_TEXTS = ("text", "key", "option")
_QUOTED = re.compile(r'"([^"]+)"')
_EDITED = ("textarea", "input_text", "input_password", "input_number", "input_search", "input_email", "input_tel")


class _Unreadable(ValueError):
    """A reply names no action; the message has the reason."""


class BrowserText(TextInterface[BrowserAction, BrowserObservation]):
    """Lists the elements of the page, a line each. A reply has one call, in its last code block if it has one."""

    history = "latest"

    def instructions(self, observation: BrowserObservation) -> str:
        """The form of the replies."""
        return (
            "Reach the goal in the web page. Each line is an element: its number, tag, text, and middle (x, y) "
            f"in pixels from the upper left of {WIDTH} x {HEIGHT}. Reply with one call: click(3), dblclick(3), "
            'hover(3), drag_and_drop(3, 5), fill(3, "new text"), type("text"), press("Enter"), press("Control+a"), '
            'select_option(3, "text of the option"), scroll(3, 100) to scroll down, scroll(3, -100), or noop(). '
            "A number is an element's; in place of it you may give a point, as in click(80, 120)."
        )

    def describe(self, observation: BrowserObservation) -> Content:
        """The goal, the elements, what went wrong, and the screenshot if there is one."""
        lines = [f"Goal: {observation.utterance}", *map(_line, observation.elements)]
        lines += [f"Error: {observation.error}"] if observation.error else []
        shot = observation.screenshot
        return joined("\n".join(lines), [] if shot is None else [image_part("screenshot", shot)])

    def replies(self, observation: BrowserObservation) -> Mapping[str, BrowserAction]:
        """None: texts and points cannot be counted."""
        return {}

    def parse(self, reply: str, observation: BrowserObservation) -> BrowserAction | None:
        """The action of the call in a reply. None if there is none or several, or if it is not legal."""
        try:
            return _read(reply, observation)
        except _Unreadable:
            return None

    def problem(self, reply: str, observation: BrowserObservation) -> str:
        """What is wrong with a reply, and what may be written instead."""
        try:
            _read(reply, observation)
        except _Unreadable as error:
            return str(error)
        return ""

    def random_reply(self, observation: BrowserObservation, rng: Random) -> tuple[str, BrowserAction]:
        """Something to do with a random element: a click, or a text of the goal, or an option of its list."""
        action = _random_action(observation, rng)
        return self.wording(action, observation), action

    def wording(self, action: BrowserAction, observation: BrowserObservation) -> str:
        """The call that names an action."""
        given = {name for name in action.model_fields_set if name not in ("kind", "metadata")}
        given = {name for name in given if getattr(action, name) is not None}
        fields = next(fields for kind, fields in _FORMS if kind == action.kind and set(fields) == given)
        return f"{action.kind}({', '.join(_literal(getattr(action, name)) for name in fields)})"


def _line(element: PageElement) -> str:
    """An element in words. Its id and classes are its name where it has no text."""
    words = [str(element.ref), element.tag]
    if element.text:
        words.append(_literal(element.text))
    else:
        words += [f"#{element.id}"] if element.id else []
        words += [f".{name}" for name in element.classes.split()]
    words += [f"value {_literal(element.value)}"] if element.value else []
    words += [f"options {', '.join(map(_literal, element.options))}"] if element.options else []
    words += [] if element.is_checked is None else ["checked" if element.is_checked else "unchecked"]
    words += ["disabled"] if element.is_disabled else []
    words += ["read-only"] if element.is_read_only else []
    words += ["focused"] if element.is_focused else []
    words += [element.color] if element.color else []
    words.append(f"({element.x + element.width // 2}, {element.y + element.height // 2})")
    return " ".join(words)


def _literal(value: Any) -> str:
    """A value as a call has it."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read(reply: str, observation: BrowserObservation) -> BrowserAction:
    """The action of the call. Raises _Unreadable."""
    places = (last_block(reply), final_answer(reply), reply)
    calls = dict.fromkeys(next((found for place in places if (found := _calls(place))), []))
    if not calls:
        raise _Unreadable(f"{reply!r:.200} has no call such as click(3). Calls: {', '.join(get_args(Kind))}.")
    if len(calls) > 1:
        raise _Unreadable(f"{reply!r:.200} has {len(calls)} different calls. Write one.")
    call, kind, arguments = next(iter(calls))
    try:
        values = ast.literal_eval(f"({arguments},)") if arguments else ()
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise _Unreadable(f"{call:.200} cannot be read. Write numbers, and texts in quotation marks.") from None
    fields = _BY_LENGTH.get((kind, len(values)))
    if fields is None:
        forms = " or ".join(f"{kind}({', '.join(names)})" for known, names in _FORMS if known == kind)
        raise _Unreadable(f"{call:.200} has {len(values)} arguments. Write {forms}.")
    given = {name: _as_field(name, value) for name, value in zip(fields, values, strict=True)}
    refs = [element.ref for element in observation.elements]
    for name in ("ref", "to_ref"):
        if given.get(name, refs[0] if refs else None) not in refs:
            raise _Unreadable(f"{call:.200}: {name}={given.get(name)} is none of {', '.join(map(str, refs))}.")
    try:
        return BrowserAction.model_validate({"kind": kind, **given})
    except ValidationError as error:
        raise _Unreadable(f"{call:.200}: {'; '.join(row['msg'] for row in error.errors())}") from None


def _calls(text: str) -> list[tuple[str, str, str]]:
    """The calls in a text: each as it is written, its kind and its arguments. Raises _Unreadable for very many."""
    begins = list(islice(_BEGIN.finditer(text), _MOST_CALLS + 1))
    if len(begins) > _MOST_CALLS:
        raise _Unreadable(f"{text!r:.200} has more than {_MOST_CALLS} calls. Write one.")
    found: list[tuple[str, str, str]] = []
    end = 0
    for begin in begins:
        arguments = _ARGUMENTS.match(text, begin.end()) if begin.start() >= end else None
        if arguments is not None:
            end = arguments.end()
            found.append((text[begin.start() : end], begin[1], arguments[1].strip()))
    return found


def _as_field(name: str, value: Any) -> Any:
    """An argument as the value of its field: numbers may be in quotation marks."""
    if name in _TEXTS:
        return str(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _random_action(observation: BrowserObservation, rng: Random) -> BrowserAction:
    usable = [element for element in observation.elements if not element.is_disabled]
    if not usable:
        return BrowserAction(kind="noop")
    element = rng.choice(usable)
    if element.options:
        return BrowserAction(kind="select_option", ref=element.ref, option=rng.choice(element.options))
    if element.tag in _EDITED and not element.is_read_only and rng.random() < 0.8:
        words = _QUOTED.findall(observation.utterance) or observation.utterance.split() or ["a"]
        return BrowserAction(kind="fill", ref=element.ref, text=rng.choice(words))
    return BrowserAction(kind="click", ref=element.ref)
