"""A page that plays one task at a time: the mouse, the keyboard, and what is seen after each action."""

from pathlib import Path
from typing import Any

from openenv.envs.browser_env.models import HEIGHT, WIDTH, BrowserAction
from openenv.envs.browser_env.server.chromium import CHROMIUM, Page, result_of, task_folder
from openenv.envs.browser_env.server.keys import key_events, typed_events

_SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
_FUNCTIONS = "openenv"
_CLIP = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
_OUTSIDE = {"x": 499, "y": 319}
"""Where the mouse is when an episode begins."""
_DRAG_MOVES = 8
Point = dict[str, float]


class TaskPage:
    """One task in a page."""

    def __init__(self) -> None:
        """Open a page in the server's Chromium. Raises PageLost, and RuntimeError where Chromium does not start."""
        self._page: Page = CHROMIUM.new_page(_SCRIPT)

    def start(self, task: str, seed: int, step_ms: int) -> dict[str, Any]:
        """Load a task and begin its episode; returns what is seen. Raises PageLost."""
        self._mouse([("mouseMoved", _OUTSIDE)], 0)
        self._page.load(task_folder() / "miniwob" / f"{task}.html", _FUNCTIONS)
        self._page.run("start", seed)
        return self.settle(step_ms)

    def settle(self, ms: int) -> dict[str, Any]:
        """Let time of the page pass; returns what is seen then: `page.js` lists the fields."""
        seen: dict[str, Any] = self._page.run("settle", ms)
        return seen

    def screenshot(self) -> str:
        """The task's part of the page, a PNG file in base64."""
        shot = self._page.call("Page.captureScreenshot", {"format": "png", "clip": _CLIP, "optimizeForSpeed": True})
        return str(shot["data"])

    def act(self, action: BrowserAction) -> None:
        """Do what an action names. Raises Refused, with the page as it was, where the page does not allow it."""
        getattr(self, f"_{action.kind}")(action)

    def close(self) -> None:
        """Close the page."""
        self._page.close()

    def _noop(self, action: BrowserAction) -> None:
        """Time passes after each action."""

    def _click(self, action: BrowserAction) -> None:
        self._press_at(self._place(action), 1)

    def _dblclick(self, action: BrowserAction) -> None:
        self._press_at(self._place(action), 2)

    def _hover(self, action: BrowserAction) -> None:
        self._mouse([("mouseMoved", self._place(action))], 0)

    def _drag_and_drop(self, action: BrowserAction) -> None:
        start = self._place(action)
        end = self._point("to_ref", action.to_ref, action.to_x, action.to_y)
        start = self._place(action)  # the drop's element may have been scrolled into view
        parts = [number / _DRAG_MOVES for number in range(1, _DRAG_MOVES + 1)]
        moves = [{axis: start[axis] + part * (end[axis] - start[axis]) for axis in ("x", "y")} for part in parts]
        events = [("mousePressed", start), *(("mouseMoved", move) for move in moves), ("mouseReleased", end)]
        self._mouse(events, 1)

    def _fill(self, action: BrowserAction) -> None:
        if not self._page.run("fill", action.ref, action.text):
            self._keys(typed_events(action.text) if action.text else key_events("Delete"))

    def _type(self, action: BrowserAction) -> None:
        self._focus(action)
        self._keys(typed_events(action.text or ""))

    def _press(self, action: BrowserAction) -> None:
        events = key_events(action.key or "")
        self._focus(action)
        self._keys(events)

    def _select_option(self, action: BrowserAction) -> None:
        self._page.run("select", action.ref, action.option)

    def _scroll(self, action: BrowserAction) -> None:
        x = WIDTH / 2 if action.x is None else action.x
        y = HEIGHT / 2 if action.y is None else action.y
        self._page.run("scroll", action.ref, x, y, action.delta_y)

    def _focus(self, action: BrowserAction) -> None:
        if action.ref is not None:
            self._page.run("focus", action.ref)

    def _place(self, action: BrowserAction) -> Point:
        return self._point("ref", action.ref, action.x, action.y)

    def _point(self, field: str, ref: int | None, x: float | None, y: float | None) -> Point:
        if ref is not None:
            point: Point = self._page.run("point", field, ref)
            return point
        assert x is not None
        assert y is not None
        return {"x": x, "y": y}

    def _press_at(self, point: Point, times: int) -> None:
        self._mouse([("mouseMoved", point)], 0)
        for count in range(1, times + 1):
            self._mouse([("mousePressed", point), ("mouseReleased", point)], count)

    def _mouse(self, events: list[tuple[str, Any]], count: int) -> None:
        """Send events of the mouse, the left button held where count is above 0: the clicks so far."""
        held = {"button": "left", "buttons": 1, "clickCount": count} if count else {}
        sent = [self._page.send("Input.dispatchMouseEvent", {"type": kind, **point, **held}) for kind, point in events]
        for future in sent:
            result_of(future)

    def _keys(self, events: list[dict[str, Any]]) -> None:
        for future in [self._page.send("Input.dispatchKeyEvent", event) for event in events]:
            result_of(future)
