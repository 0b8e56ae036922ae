"""Serves an environment with a page on which a person plays it, and describes it for such pages."""

import asyncio
import inspect
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http_server import resolve_served
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import EnvironmentSource
from openenv.core.env_server.serialization import deserialize_action_with_preprocessing, serialize_observation
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, ServerMode, State

if TYPE_CHECKING:
    from fastapi import FastAPI, WebSocket

README_VARIABLE = "ENV_README_PATH"


def create_web_interface_app(
    env: EnvironmentSource,
    action_cls: type[Action] | None = None,
    observation_cls: type[Observation] | None = None,
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    gradio_builder: Callable[..., Any] | None = None,
    custom_tab_name: str = "Custom",
    custom_tab_primary: bool = False,
    show_default_tab: bool = True,
    title_override: str | None = None,
    state_cls: type[State] | None = None,
    *,
    mode: ServerMode | str | None = None,
    reset_observation_cls: type[Observation] | None = None,
    config: ServerConfig | None = None,
) -> "FastAPI":
    """The application of `create_app` with the page at `/web`, to which `/` leads.

    Parameters and exceptions are those of `create_app`. gradio_builder: makes a page with Gradio, at `/web/custom`,
    where Gradio is installed; our page has a link `custom_tab_name` to it. With `custom_tab_primary`, or without
    `show_default_tab`, `/` leads there. title_override: its title. A page that browsers open by a name, such as
    `http://games.example:8000/web`, needs that name in `allowed_hosts`, or a token.
    """
    from openenv.core.env_server.serving.app_loader import app_without_pages  # imports FastAPI
    from openenv.core.env_server.web.gradio_tab import PATH, GradioTab
    from openenv.core.env_server.web.routes import add_web_pages

    spec, limits = resolve_served(
        env, action_cls, observation_cls, max_concurrent_envs, concurrency_config, env_name, state_cls, mode,
        reset_observation_cls, config,
    )  # fmt: skip
    app = app_without_pages(spec, limits)
    tab = None
    if gradio_builder is not None:
        tab = GradioTab(
            builder=gradio_builder,
            name=custom_tab_name,
            is_primary=custom_tab_primary or not show_default_tab,
            title=title_override,
        )

    def manager(made: Environment) -> WebInterfaceManager:
        return WebInterfaceManager(made, spec.action_cls, spec.observation_cls)

    quick_start = get_quick_start_markdown(None, spec.action_cls, spec.observation_cls)
    has_tab = tab is not None and tab.add_to(app, spec, manager, quick_start)
    leads_to = PATH if tab is not None and has_tab and tab.is_primary else "/web"
    add_web_pages(app, spec, leads_to=leads_to, tabs=[(custom_tab_name, "custom/")] if has_tab else [])
    return app


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
        message = json.dumps({"type": "state_update", "episode_state": self.episode_state.model_dump(mode="json")})
        for client in list(self.connected_clients):
            try:
                await client.send_text(message)
            except (RuntimeError, OSError):  # it has left
                await self.disconnect_websocket(client)


def load_environment_metadata(env: Any, env_name: str | None = None) -> EnvironmentMetadata:
    """Name, description and README of an environment. A class or factory is not called: its docstring describes it.

    env_name: the environment's folder. The README is the file of ENV_README_PATH, else `/app/README.md`, else
    `envs/<env_name>/README.md`, else the one beside the environment's package.
    """
    if isinstance(env, Environment):
        metadata = env.get_metadata()
    else:
        made: Any = env.func if isinstance(env, partial) else env
        name = env_name or str(getattr(made, "__name__", type(made).__name__))
        description = (inspect.getdoc(made) or f"{name} environment").splitlines()[0]
        metadata = EnvironmentMetadata(name=name, description=description, version="1.0.0")
    readme = next((path for path in _readmes(env, env_name) if path.is_file()), None)
    if metadata.readme_content is None and readme is not None:
        return metadata.model_copy(update={"readme_content": readme.read_text(encoding="utf-8", errors="replace")})
    return metadata


def _readmes(env: Any, env_name: str | None) -> list[Path]:
    paths = [Path(path) for path in (os.environ.get(README_VARIABLE), "/app/README.md") if path]
    if env_name:
        paths += [Path("envs") / env_name / "README.md"]
    module = inspect.getmodule(env if inspect.isclass(env) or inspect.isroutine(env) else type(env))
    if module is not None and getattr(module, "__file__", None):
        folder = Path(str(module.__file__)).parent
        paths += [folder / "README.md", folder.parent / "README.md"]
    return paths


def get_quick_start_markdown(
    metadata: EnvironmentMetadata | None, action_cls: type[Action], observation_cls: type[Observation]
) -> str:
    """Markdown that shows how a program connects, resets and steps, with the fields of this action."""
    name = metadata.name if metadata is not None else "environment"
    fields = ", ".join(f"{field}=..." for field, info in action_cls.model_fields.items() if info.is_required())
    client = f"{action_cls.__name__.removesuffix('Action')}Env"
    return f"""### Connect to {name}

```python
with {client}(base_url="http://localhost:8000") as env:
    result = env.reset()  # result.observation is a {observation_cls.__name__}
    result = env.step({action_cls.__name__}({fields}))
    print(result.observation, result.reward, result.done)
```
"""
