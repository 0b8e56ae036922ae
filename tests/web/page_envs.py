"""Environments for the tests of pages: one that shows pixels, and one whose every text tries to run a script."""

from typing import Any

import numpy as np
from fastmcp import FastMCP
from pydantic import Field

from openenv.core import Action, Environment, Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.formats.images import Image

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


class Move(Action):
    """Where the dot goes."""

    right: bool = Field(description="To the right, or to the left.")


class Screen(Observation):
    frame: Image
    column: int = Field(json_schema_extra={"unit": "px"})


class DotEnvironment(Environment[Move, Screen, State]):
    """Move the dot to the right edge."""

    def __init__(self) -> None:
        self._state, self._column = State(), 8

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Screen:
        self._state, self._column = State(episode_id=episode_id), 8
        return self._seen(0.0)

    def step(self, action: Move, timeout_s: float | None = None, **kwargs: Any) -> Screen:
        self._state.step_count += 1
        self._column += 1 if action.right else -1
        return self._seen(float(self._column == 15))

    def _seen(self, reward: float) -> Screen:
        pixels = np.full((16, 16, 3), 30, np.uint8)
        pixels[8, self._column] = (255, 220, 0)
        return Screen(frame=pixels, column=self._column, reward=reward, done=self._column in (0, 15))

    @property
    def state(self) -> State:
        return self._state


class HostileAction(Action):
    word: str = Field(description=SCRIPT, title=SCRIPT)


class HostileObservation(Observation):
    text: str
    lines: str
    entries: list[str]
    board: list[list[str]]
    fields: dict[str, str]


class HostileEnvironment(Environment[HostileAction, HostileObservation, State]):
    __doc__ = f"Shows {SCRIPT}"

    def __init__(self) -> None:
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, note: str = SCRIPT) -> HostileObservation:
        self._state = State(episode_id=SCRIPT)
        return self._seen(None)

    def step(self, action: HostileAction, timeout_s: float | None = None, **kwargs: Any) -> HostileObservation:
        if action.word == "fail":
            raise ValueError(SCRIPT)
        return self._seen(1.0)

    def _seen(self, reward: float | None) -> HostileObservation:
        return HostileObservation(
            text=SCRIPT, lines=f"{SCRIPT}\n{SCRIPT}", entries=[SCRIPT], board=[["<b>", "<i>"], ["<s>", "&"]],
            fields={SCRIPT: SCRIPT}, reward=reward, metadata={SCRIPT: SCRIPT, "text": SCRIPT},
        )  # fmt: skip

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name=SCRIPT, description=SCRIPT, version="1")

    def render_web(self, observation: dict[str, Any]) -> str:
        return f"<p style='color: green'>drawn</p>{SCRIPT}<script>parent.hacked = 1</script>"

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        return [(SCRIPT, {"word": SCRIPT})]

    @property
    def state(self) -> State:
        return self._state


class HostileTools(MCPEnvironment):
    """Its tools describe themselves with a script."""

    def __init__(self) -> None:
        mcp: FastMCP = FastMCP("hostile")

        @mcp.tool(description=SCRIPT)
        def say(word: str = SCRIPT) -> str:
            return word

        super().__init__(mcp)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        return Observation(metadata={"text": SCRIPT})

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation()

    @property
    def state(self) -> State:
        return self._state
