"""Two MCP tools with an argument each: bring a room to 20 degrees with one call of the right one."""

from random import Random
from typing import Any, Literal

from fastmcp import FastMCP

from openenv import Action, Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction

WANTED = 20
Degrees = Literal[1, 2, 3, 4]


class RoomObservation(Observation):
    temperature: int


class ThermostatEnvironment(MCPEnvironment):
    """The reward is 1 at 20 degrees, else 0. Rooms are 16 to 24 degrees warm, and none has 20."""

    def __init__(self) -> None:
        mcp: FastMCP = FastMCP("thermostat")
        self._state, self._temperature = State(), WANTED

        @mcp.tool
        def heat(degrees: Degrees) -> int:
            """Raise the temperature."""
            self._temperature += degrees
            return self._temperature

        @mcp.tool
        def cool(degrees: Degrees) -> int:
            """Lower the temperature."""
            self._temperature -= degrees
            return self._temperature

        super().__init__(mcp)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> RoomObservation:
        self._state = State(episode_id=episode_id)
        self._temperature = WANTED + Random(seed).choice((-4, -3, -2, -1, 1, 2, 3, 4))
        return RoomObservation(temperature=self._temperature)

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        observation: Observation = await super().step_async(action, timeout_s, **kwargs)
        if not isinstance(action, CallToolAction):
            return observation
        self._state.step_count += 1
        return observation.model_copy(update={"done": True, "reward": float(self._temperature == WANTED)})

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        raise ValueError(f"{type(action).__name__}: call the tool `heat` or `cool`")

    @property
    def state(self) -> State:
        return self._state
