"""The page of `openenv runs`: curves of runs while they train, their transcripts, and their settings."""

from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Request
from starlette.responses import HTMLResponse, Response

from openenv.core.env_server.config import ServerConfig
from openenv.pages.run_folders import TITLES, RunFolders, TranscriptQuery, UnknownRun, UnreadableRun
from openenv.pages.server import PAGES, json_response, pages_app
from openenv.rl.reports.charts import report_policy
from openenv.web.pages import PRIVATE_HEADERS

_MOST_RUNS = 50
"""Runs whose settings are compared."""

_Run = Annotated[str, Query(max_length=255)]


def runs_app(folder: Path, config: ServerConfig | None = None) -> FastAPI:
    """The application that serves the runs of a folder. config: its token and hosts decide about access."""
    app = pages_app(config or ServerConfig(busy_poll=False))
    runs = RunFolders(folder)
    _add_pages(app, runs)
    _add_data(app, runs)

    @app.exception_handler(UnknownRun)
    async def not_found(request: Request, error: UnknownRun) -> Response:
        return json_response({"message": str(error)}, status_code=404)

    @app.exception_handler(UnreadableRun)
    async def unreadable(request: Request, error: UnreadableRun) -> Response:
        return json_response({"message": str(error)}, status_code=422)

    return app


def _add_pages(app: FastAPI, runs: RunFolders) -> None:
    @app.get("/web/")
    def page() -> Response:
        return PAGES.response("runs.html", title="Runs", root="", folder=str(runs.folder))

    @app.get("/web/report")
    def report(run: _Run) -> Response:
        policy = f"{report_policy()}; frame-ancestors 'none'; sandbox allow-scripts"
        headers = {**PRIVATE_HEADERS, "Content-Security-Policy": policy}
        return HTMLResponse(runs.report(run), headers=headers)


def _add_data(app: FastAPI, runs: RunFolders) -> None:
    @app.get("/web/runs")
    def listed() -> Response:
        return json_response({"runs": runs.rows(), "titles": TITLES})

    @app.get("/web/curve")
    def curve(run: _Run, metric: _Run, generation: int = -1, after: Annotated[int, Query(ge=0)] = 0) -> Response:
        return json_response(runs.curve(run, metric, generation, after))

    @app.get("/web/transcripts")
    def transcripts(
        run: _Run, outcome: _Run = "", text: _Run = "", offset: Annotated[int, Query(ge=0)] = 0
    ) -> Response:
        return json_response(runs.transcripts(run, TranscriptQuery(outcome=outcome, text=text, offset=offset)))

    @app.get("/web/settings")
    def settings(run: Annotated[list[str], Query(max_length=_MOST_RUNS)]) -> Response:
        return json_response(runs.settings(run))
