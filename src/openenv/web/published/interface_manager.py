"""The published classes of a page whose visitors share one environment, for pages that authors have written."""

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.serialization import deserialize_action_with_preprocessing, serialize_observation
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation
from openenv.formats.json_text import json_text

if TYPE_CHECKING:
    from fastapi import WebSocket


class ActionLog(BaseModel):
    """One step on a page."""

    model_config = ConfigDict(extra="forbid")

    timestamp: str = Field(description="When the step was taken, in UTC")
    action: dict[str, Any]
    observation: dict[str, Any]
    reward: float | None = None
    done: bool
    step_count: int = Field(description="Number of the step, from 1")


class EpisodeState(BaseModel):
    """An episode as a page shows it."""

    model_config = ConfigDict(extra="forbid")

    episode_id: str | None = None
    step_count: int
    current_observation: dict[str, Any] | None = None
    action_logs: list[ActionLog] = Field(default_factory=list)
    is_reset: bool = True


class WebInterfaceManager:
    """Plays one environment for pages that share it, and sends each change to those that are connected."""

    def __init__(
        self,
        env: Environment,
        action_cls: type[Action],
        observation_cls: type[Observation],
        metadata: EnvironmentMetadata | None = None,
    ) -> None:
        """metadata: None for what the environment says about itself."""
        self.env = env
        self.action_cls = action_cls
        self.observation_cls = observation_cls
        self.metadata = metadata or env.get_metadata()
        self.episode_state = EpisodeState(step_count=0)
        self.connected_clients: list[WebSocket] = []

    async def connect_websocket(self, websocket: "WebSocket") -> None:
        """Accept a connection and send it the episode so far."""
        await websocket.accept()
        self.connected_clients.append(websocket)
        await self._send_state()

    async def disconnect_websocket(self, websocket: "WebSocket") -> None:
        """Send nothing more to a connection."""
        if websocket in self.connected_clients:
            self.connected_clients.remove(websocket)

    async def reset_environment(self, reset_kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start an episode. reset_kwargs: for `reset`. Returns the data of the observation's frame."""
        result = serialize_observation(await self._call("reset", **(reset_kwargs or {})))
        self.episode_state = EpisodeState(
            episode_id=self.env.state.episode_id, step_count=0, current_observation=result["observation"]
        )
        await self._send_state()
        return result

    async def step_environment(self, action_data: dict[str, Any]) -> dict[str, Any]:
        """Take an action, given by its fields or by the texts of a form. Returns the data of the observation's frame.

        Raises pydantic's ValidationError for a wrong action.
        """
        action = deserialize_action_with_preprocessing(action_data, self.action_cls)
        result = serialize_observation(await self._call("step", action))
        episode = self.episode_state
        episode.step_count += 1
        episode.current_observation = result["observation"]
        episode.is_reset = False
        episode.action_logs.append(
            ActionLog(
                timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), action=action.model_dump(mode="json"),
                observation=result["observation"], reward=result.get("reward"), done=result.get("done", False),
                step_count=episode.step_count,
            )
        )  # fmt: skip
        await self._send_state()
        return result

    def get_state(self) -> dict[str, Any]:
        """The state of the environment as JSON values."""
        return self.env.state.model_dump(mode="json")

    async def _call(self, verb: str, *args: Any, **kwargs: Any) -> Observation:
        """The observation of a verb: of its asynchronous twin where the class writes that, else in a thread."""
        twin = f"{verb}_async"
        if getattr(type(self.env), twin) is not getattr(Environment, twin):
            observation: Observation = await getattr(self.env, twin)(*args, **kwargs)
            return observation
        plain = partial(getattr(self.env, verb), *args, **kwargs)
        made: Observation = await asyncio.to_thread(plain)
        return made

    async def _send_state(self) -> None:
        message = json_text({"type": "state_update", "episode_state": self.episode_state.model_dump(mode="json")})
        for client in list(self.connected_clients):
            try:
                await client.send_text(message)
            except (RuntimeError, OSError):  # it has left
                await self.disconnect_websocket(client)
