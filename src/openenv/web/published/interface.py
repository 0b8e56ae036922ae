"""The published way to an application with the page at `/web`, and the classes and functions around it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http_server import resolve_served
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import EnvironmentSource
from openenv.core.env_server.serialization import deserialize_action_with_preprocessing, serialize_observation
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, ServerMode, State
from openenv.web.published.descriptions import get_quick_start_markdown, load_environment_metadata
from openenv.web.published.interface_manager import ActionLog, EpisodeState, WebInterfaceManager

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = [
    "Action",
    "ActionLog",
    "Environment",
    "EnvironmentMetadata",
    "EpisodeState",
    "Observation",
    "State",
    "WebInterfaceManager",
    "create_web_interface_app",
    "deserialize_action_with_preprocessing",
    "get_quick_start_markdown",
    "load_environment_metadata",
    "serialize_observation",
]


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
    # imports FastAPI
    from openenv.web.application import app_with_pages
    from openenv.web.gradio_tab import GradioTab

    spec, limits = resolve_served(
        env, action_cls, observation_cls, max_concurrent_envs, concurrency_config, env_name, state_cls, mode,
        reset_observation_cls, config,
    )  # fmt: skip
    is_primary = custom_tab_primary or not show_default_tab
    return app_with_pages(spec, limits, GradioTab.of(gradio_builder, custom_tab_name, is_primary, title_override))
