"""The page of `openenv replay --web`: a person steps through a recorded session, and sees where the replay differs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path
from starlette.responses import Response

from openenv.core.env_server.config import ServerConfig
from openenv.evaluation.replay import ReplayedRequest
from openenv.formats.json_text import json_text
from openenv.pages.server import PAGES, json_response, pages_app
from openenv.web.views import ObservationView


def replay_app(
    name: str, requests: Sequence[ReplayedRequest], view: ObservationView, config: ServerConfig | None = None
) -> FastAPI:
    """The application that serves a replay. name: of the recording. config: its token and hosts decide about access."""
    app = pages_app(config or ServerConfig(busy_poll=False))
    totals = returns(requests)
    overview = json_response(
        {
            "verbs": [request.recorded["verb"] for request in requests],
            "returns": totals,
            "differences": {str(n): request.differences for n, request in enumerate(requests) if request.differences},
        }
    )

    @app.get("/web/")
    def page() -> Response:
        return PAGES.response("replay.html", title=f"Replay of {name}", root="", number=len(requests))

    @app.get("/web/requests")
    def all_requests() -> Response:
        return overview

    @app.get("/web/requests/{index}")
    def one_request(index: Annotated[int, Path(ge=0)]) -> Response:
        if index >= len(requests):
            raise HTTPException(404, f"there is no request {index + 1}: the recording has {len(requests)}")
        return json_response({**_shown(requests[index], view), "return": totals[index]})

    return app


def returns(requests: Sequence[ReplayedRequest]) -> list[float]:
    """The sum of rewards of the episode up to each request. A restored session has that of its snapshot."""
    total, totals, saved = 0.0, [], {}
    for request in requests:
        verb, data = request.recorded["verb"], request.recorded["data"]
        if verb == "reset":
            total = 0.0
        elif verb == "save":
            saved[data["token"]] = total
        elif verb == "restore":
            total = saved[data["token"]]
        total += request.outcome.get("reward") or 0.0
        totals.append(total)
    return totals


def _shown(request: ReplayedRequest, view: ObservationView) -> dict[str, Any]:
    """What the page shows of a request."""
    recorded, outcome = request.recorded, request.outcome
    return {
        "verb": recorded["verb"],
        "data": {name: _text(value) for name, value in recorded["data"].items()},
        "parts": _parts(request.observation, view),
        "reward": outcome.get("reward"),
        "done": bool(outcome.get("done")),
        "validity": outcome.get("validity", ""),
        "message": outcome.get("message", ""),
        "differences": request.differences,
    }


def _parts(observation: Any, view: ObservationView) -> list[dict[str, Any]]:
    if observation is None:
        return []
    return view.parts(observation if isinstance(observation, Mapping) else {"result": observation})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value, ensure_ascii=False)
