"""The page of `openenv eval --web`: the table and plot while they grow, and two policies side by side on one seed."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from openenv.core.env_server.config import ServerConfig
from openenv.pages.live_results import LiveResults
from openenv.pages.matches import Match, Matches, MatchRefused, Side
from openenv.pages.server import PAGES, json_response, pages_app
from openenv.web.views import ObservationView

_Number = Annotated[int, Path(ge=0)]


class MatchRequest(BaseModel):
    """Which two policies play from which seed."""

    model_config = ConfigDict(extra="forbid")

    policies: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]
    """Their places in the evaluation, from 0."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]


def compare_app(
    environment: str,
    results: LiveResults,
    matches: Matches,
    view: ObservationView,
    *,
    seed: int = 0,
    config: ServerConfig | None = None,
) -> FastAPI:
    """The application that serves an evaluation. seed: of its first episode. config: decides about access."""
    app = pages_app(config or ServerConfig(busy_poll=False))

    @app.get("/web/")
    def page() -> Response:
        title = f"Policies in {environment}"
        return PAGES.response("compare.html", title=title, root="", policies=results.names, seed=seed)

    @app.get("/web/results")
    def table() -> Response:
        return json_response(results.rows())

    _add_matches(app, matches, view)
    return app


def _add_matches(app: FastAPI, matches: Matches, view: ObservationView) -> None:
    @app.post("/web/matches")
    def begin(request: MatchRequest) -> Response:
        try:
            return json_response({"match": matches.begin(request.policies, request.seed)})
        except MatchRefused as error:
            raise HTTPException(409, str(error)) from error

    @app.get("/web/matches/{number}")
    def progress(number: _Number) -> Response:
        match = _found(matches, number)
        sides = [_side(side) for side in match.sides]
        return json_response({"sides": sides, "is_over": match.is_over, "problem": match.problem})

    @app.get("/web/matches/{number}/turns/{index}")
    def turns(number: _Number, index: _Number) -> Response:
        return json_response([_turn(side, index, view) for side in _found(matches, number).sides])


def _found(matches: Matches, number: int) -> Match:
    match = matches.get(number)
    if match is None:
        raise HTTPException(404, f"there is no match {number} any more: play it again")
    return match


def _side(side: Side) -> dict[str, Any]:
    result = side.result
    outcome = "" if result is None else result.outcome
    reason = "" if result is None else result.reason or ""
    return {"policy": side.policy, "turns": len(side.turns), "outcome": outcome, "reason": reason}


def _turn(side: Side, index: int, view: ObservationView) -> Mapping[str, Any] | None:
    """What the page shows of a turn; of a shorter episode its last. None before the first."""
    if not side.turns:
        return None
    place = min(index, len(side.turns) - 1)
    turn = side.turns[place]
    return {
        "turn": place,
        "action": turn.action,
        "reward": turn.reward,
        "return": turn.total_reward,
        "done": turn.done,
        "parts": view.parts(turn.observation),
    }
