"""Frames of environments on a machine without a display."""

import ctypes.util
import importlib.util
import os
from collections.abc import Callable
from typing import Any

from openenv.formats.images import png_base64
from openenv.installation import install_line


def draw_without_display() -> None:
    """Let MuJoCo draw by EGL, where the machine has it, and SDL draw into memory. Variables that are set stay.

    Call it where a process starts: both libraries read their variable when they are imported.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if not os.environ.get("MUJOCO_GL"):
        os.environ.pop("MUJOCO_GL", None)  # MuJoCo refuses an empty one
        if ctypes.util.find_library("EGL") is not None:
            os.environ["MUJOCO_GL"] = "egl"


def check_render(render: Any) -> None:
    """Raises ValueError unless it is a boolean, and for True where no PNG file can be written."""
    if not isinstance(render, bool):
        raise ValueError(f"render={render!r}: expected true, for a frame in each observation, or false.")
    if render and importlib.util.find_spec("PIL") is None:
        raise ValueError(f"render=True: frames need Pillow where the server runs: {install_line('images')}")


def frame_png(draw: Callable[[], Any]) -> str:
    """The frame that a function draws, as a PNG file in base64. Raises ValueError, with the reason, if it cannot."""
    try:
        return png_base64(draw())
    except Exception as error:  # border: a display, a driver or a package may be missing
        reason = str(error) or type(error).__name__
        raise ValueError(f"render=True: no frame can be drawn: {reason}. Reset with render=False.") from error
