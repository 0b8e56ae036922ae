"""The page of `openenv eval --web`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from openenv.auto.environment import ServedEnvironment
from openenv.cli.pages.options import PageOptions
from openenv.pages.compare import compare_app
from openenv.pages.live_results import LiveResults
from openenv.pages.matches import Matches
from openenv.pages.server import PageServer, access_config
from openenv.web.views import ObservationView, game_of


class EvaluationPage:
    """The page of an evaluation that runs."""

    def __init__(self, server: PageServer) -> None:
        self._server = server

    def wait(self) -> None:
        """Serve the results until interrupted."""
        typer.echo(f"the results stay at {self._server.url}; stop with Ctrl-C", err=True)
        self._server.wait()


@contextmanager
def evaluation_page(
    environment: str,
    served: ServedEnvironment,
    policies: Sequence[Any],
    make_policy: Callable[[str, int], Any],
    results: LiveResults,
    *,
    seed: int,
    reset_kwargs: Mapping[str, Any],
    max_steps: int,
    page: PageOptions,
) -> Iterator[EvaluationPage]:
    """Serve the page of an evaluation inside the `with` statement.

    make_policy: makes a further policy of a name and a seed, for a match. results: what the page shows.
    """
    config = access_config(page.host, os.environ.get("OPENENV_TOKEN"))
    matches = Matches(served, make_policy, policies, results, reset_kwargs=reset_kwargs, max_steps=max_steps)
    view = ObservationView(served.observation_class)
    game = game_of(reset_kwargs)
    app = compare_app(
        f"{environment}: {game}" if game else environment, results, matches, view, seed=seed, config=config
    )
    try:
        with PageServer(app, page.host, page.port) as server:
            typer.echo(f"results of {environment} at {server.url}", err=True)
            yield EvaluationPage(server)
    finally:
        matches.close()
