"""Action, observation and state of the web tasks."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from openenv.core.env_server.types import Action, Observation, State
from openenv.formats.images import Image

WIDTH, HEIGHT = 160, 210
"""Pixels of a task's part of the page."""
LONGEST_TEXT = 1000
MOST_SCROLL = 1000
Kind = Literal[
    "noop", "click", "dblclick", "hover", "drag_and_drop", "fill", "type", "press", "select_option", "scroll"
]
_EXAMPLES: list[Any] = [
    {"kind": "noop"},
    {"kind": "press", "key": "Tab"},
    {"kind": "press", "key": "Enter"},
    {"kind": "type", "text": "a"},
    {"kind": "scroll", "delta_y": 50},
    *[{"kind": "click", "x": x, "y": y} for x in range(20, WIDTH, 40) for y in range(60, HEIGHT, 30)],
]
"""Actions that every page allows, for random play by the schema alone."""
_FIELDS: dict[Kind, tuple[str, ...]] = {
    "noop": (),
    "click": (),
    "dblclick": (),
    "hover": (),
    "drag_and_drop": (),
    "fill": ("ref", "text"),
    "type": ("text",),
    "press": ("key",),
    "select_option": ("ref", "option"),
    "scroll": ("delta_y",),
}
"""Fields that a kind must have, apart from places."""
_PLACED = ("click", "dblclick", "hover", "drag_and_drop")
"""Kinds that need a place."""
_MAY_HAVE_REF = ("type", "press")
_MAY_HAVE_PLACE = ("scroll",)


class BrowserAction(Action):
    """What the mouse or the keyboard does. A place is an element, by `ref`, or a point, by `x` and `y`."""

    model_config = ConfigDict(json_schema_extra={"examples": _EXAMPLES})

    kind: Kind = Field(description="What is done; noop lets time pass")
    ref: int | None = Field(default=None, ge=1, description="An element, by its number in the observation")
    x: float | None = Field(default=None, ge=0, lt=WIDTH, description=f"Pixels from the left, below {WIDTH}")
    y: float | None = Field(default=None, ge=0, lt=HEIGHT, description=f"Pixels from the top, below {HEIGHT}")
    to_ref: int | None = Field(default=None, ge=1, description="drag_and_drop: the element to drop on")
    to_x: float | None = Field(default=None, ge=0, lt=WIDTH, description="drag_and_drop: the point to drop at")
    to_y: float | None = Field(default=None, ge=0, lt=HEIGHT, description="drag_and_drop: the point to drop at")
    text: str | None = Field(
        default=None, max_length=LONGEST_TEXT, description="fill: replaces a field's text; type: is typed"
    )
    key: str | None = Field(
        default=None, max_length=40, description="press: a key such as Enter, a, ArrowDown or Control+a"
    )
    option: str | None = Field(default=None, max_length=LONGEST_TEXT, description="select_option: the option's text")
    delta_y: float | None = Field(
        default=None, ge=-MOST_SCROLL, le=MOST_SCROLL, description="scroll: pixels down; negative: up"
    )

    @model_validator(mode="after")
    def _has_the_fields_of_its_kind(self) -> Self:
        given = {name for name in _OPTIONAL if getattr(self, name) is not None}
        needed = set(_FIELDS[self.kind])
        for name in sorted(needed - given):
            raise ValueError(f"{name}: {self.kind} needs it. {_usage(self.kind)}")
        if self.kind in _PLACED:
            needed |= self._place("ref", "x", "y")
        if self.kind == "drag_and_drop":
            needed |= self._place("to_ref", "to_x", "to_y")
        if self.kind in _MAY_HAVE_REF:
            needed.add("ref")
        if self.kind in _MAY_HAVE_PLACE and given & {"ref", "x", "y"}:
            needed |= self._place("ref", "x", "y")
        for name in sorted(given - needed):
            raise ValueError(f"{name}={getattr(self, name)!r:.80}: {self.kind} does not take it. {_usage(self.kind)}")
        return self

    def _place(self, ref: str, x: str, y: str) -> set[str]:
        """The fields of a place: an element's number, or both coordinates."""
        values = [getattr(self, name) is not None for name in (ref, x, y)]
        if values == [True, False, False]:
            return {ref}
        if values == [False, True, True]:
            return {x, y}
        raise ValueError(f"{ref}: {self.kind} needs {ref} alone, or {x} and {y}. {_usage(self.kind)}")


_OPTIONAL = tuple(name for name in BrowserAction.model_fields if name not in ("kind", "metadata"))


def _usage(kind: Kind) -> str:
    """The fields of a kind, in a sentence."""
    fields = list(_FIELDS[kind])
    fields += ["ref, or x and y"] if kind in _PLACED else []
    fields += ["to_ref, or to_x and to_y"] if kind == "drag_and_drop" else []
    fields += ["perhaps ref"] if kind in _MAY_HAVE_REF else []
    fields += ["perhaps ref, or x and y"] if kind in _MAY_HAVE_PLACE else []
    return f"Give {kind} {'; '.join(fields)}." if fields else f"Give {kind} no other field."


class PageElement(BaseModel):
    """One element of the page."""

    model_config = ConfigDict(extra="forbid")

    ref: int = Field(description="Its number, which stays the same for an episode")
    tag: str = Field(description="Its tag in lower case; of inputs with the type, such as input_checkbox")
    text: str = Field(default="", description="Its own text, without that of elements in it")
    value: str = Field(default="", description="What is written in a field, or chosen in a list")
    options: list[str] = Field(default_factory=list, description="The texts that a list offers")
    is_checked: bool | None = Field(default=None, description="Of checkboxes and radio buttons; null for all others")
    is_disabled: bool = Field(default=False, description="Whether it takes no input")
    is_read_only: bool = Field(default=False, description="Whether its text changes by clicks only")
    is_focused: bool = Field(default=False, description="Whether it receives what is typed")
    id: str = Field(default="", description="Its id in the page")
    classes: str = Field(default="", description="Its classes, separated by spaces")
    color: str = Field(default="", description="The color of a shape, or of an element without text, as #rrggbb")
    x: int = Field(description="Pixels from the left of the page to its left side")
    y: int = Field(description="Pixels from the top of the page to its upper side")
    width: int = Field(description="Pixels")
    height: int = Field(description="Pixels")


class BrowserObservation(Observation):
    """The task and the page. The metadata of the first observation of an episode contains `task` and `seed`."""

    METADATA_IS_PLAIN_JSON = True

    utterance: str = Field(description="The goal, in words")
    elements: list[PageElement] = Field(
        default_factory=list, description="The elements that have a text, a field, a shape or a name; empty when done"
    )
    error: str = Field(default="", description="What went wrong in the page since the last observation")
    truncated: bool = Field(default=False, description="Whether the limit of steps has ended the episode")
    screenshot: Image | None = Field(
        default=None,
        description=f"The task, {WIDTH} x {HEIGHT} pixels, a PNG file in base64, after a reset with `screenshot: true`",
    )


class BrowserState(State):
    """The task of an episode."""

    task: str = Field(default="", description="MiniWoB's name of the task")
    seed: int = Field(default=0, description="Determines the task's content")
    screenshot: bool = Field(default=False, description="Whether observations carry a screenshot")
    max_steps: int = Field(default=0, description="Steps after which the episode is truncated")
    step_ms: int = Field(default=0, description="Time of the page that passes after each action, in milliseconds")
