"""Adds GET routes to an application from a list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass
class GetEndpointConfig:
    """One route: its path, the function that answers it, and its entry in the documentation."""

    path: str
    handler: Callable[[], BaseModel | dict[str, Any]]
    response_model: type[BaseModel] | type[dict[str, Any]]
    tag: str
    summary: str
    description: str


def register_get_endpoints(app: "FastAPI", configs: Sequence[GetEndpointConfig]) -> None:
    """Add each route to the application. A handler runs in a thread unless it is a coroutine function."""
    for config in configs:
        app.add_api_route(
            config.path, config.handler, methods=["GET"], response_model=config.response_model, tags=[config.tag],
            summary=config.summary, description=config.description,
        )  # fmt: skip
