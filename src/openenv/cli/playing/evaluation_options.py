"""The options of `openenv eval`: what is played, how a language model is asked, and what becomes of the results."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from openenv.envs.catalog import game_keyword
from openenv.formats.json_text import json_or_word
from openenv.policies.registry import EndpointOptions
from openenv.text.interface import History

_PLOTS = (".png", ".svg", ".pdf")


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """The episodes that each policy plays. Raises ValueError for a success return that is not finite."""

    game: Annotated[
        str | None, typer.Option(help="Play this game, where the environment has several (default: the server's).")
    ] = None
    reset: Annotated[
        list[str],
        typer.Option(help="Send KEY=VALUE with every reset; VALUE is JSON or a word. Repeatable (default: none)."),
    ] = field(default_factory=list)
    episodes: Annotated[int, typer.Option(min=1, help="Play this many episodes with each policy.")] = 50
    seed: Annotated[
        int, typer.Option(min=0, help="Start the first episode from this seed; all policies play equal episodes.")
    ] = 0
    sessions: Annotated[int, typer.Option(min=1, help="Play this many episodes at the same time.")] = 32
    text: Annotated[
        str | None,
        typer.Option(
            help="Use this text interface, MODULE:CLASS or FILE.py:CLASS (default: the environment's own).",
        ),
    ] = None
    success_return: Annotated[
        float | None,
        typer.Option(
            help="Count an episode with at least this return as a success (default: what the environment declares; "
            "one that declares nothing has a mean return and no success rate).",
        ),
    ] = None
    max_steps: Annotated[
        int, typer.Option(min=1, help="Stop an episode after this many steps; its rewards so far count.")
    ] = 1000

    def __post_init__(self) -> None:
        if self.success_return is not None and not math.isfinite(self.success_return):
            raise ValueError(f"--success-return {self.success_return}: give a finite number")

    @property
    def seeds(self) -> range:
        """The seed of each episode."""
        return range(self.seed, self.seed + self.episodes)

    def reset_kwargs(self, environment: str) -> dict[str, Any]:
        """The keywords of every reset. Raises as `reset_keywords` does."""
        return reset_keywords(environment, self.reset, self.game)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How a language model behind an endpoint is asked."""

    retries: Annotated[
        int,
        typer.Option(
            min=0,
            help="Let a language model reply again, up to this many times, to a reply without a legal action; it "
            "is shown the problem.",
        ),
    ] = 0
    tool_calls: Annotated[
        bool,
        typer.Option(
            help="Offer a language model the environment's tools, or its action of several fields, as functions to "
            "call. Without, it replies with texts.",
        ),
    ] = True
    history: Annotated[
        History | None,
        typer.Option(
            help="Show a language model whole episodes, or the newest observation alone, as it was trained (default: "
            "what the text interface has; a derived one has full)."
        ),
    ] = None
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Temperature of a language model (default 0).", show_default=False)
    ] = 0.0
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each reply of a language model, at most.")] = 256
    timeout_s: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="Wait this many seconds for each reply of a language model (default 60).",
            show_default=False,
        ),
    ] = 60.0
    api_key_env: Annotated[
        str,
        typer.Option(
            help="Send a language model's server the key of this environment variable, if it is set (default "
            "OPENAI_API_KEY).",
            show_default=False,
        ),
    ] = "OPENAI_API_KEY"

    @property
    def endpoint(self) -> EndpointOptions:
        """The same, with the key."""
        return EndpointOptions(
            temperature=self.temperature, max_tokens=self.max_tokens, timeout_s=self.timeout_s,
            api_key=os.environ.get(self.api_key_env), calls_functions=self.tool_calls, retries=self.retries,
            history=self.history,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Where results go. Raises ValueError for a plot of an unknown format, and where nothing can be resumed."""

    save: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Write the episodes of each policy to a file in this folder, for `openenv export` (default: none).",
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the episodes that the folder of --save has, and play those that are missing or invalid "
            "(default: play all).",
        ),
    ] = False
    plot: Annotated[
        Path,
        typer.Option(dir_okay=False, help="Write the plot to this file (default runs/eval.png).", show_default=False),
    ] = Path("runs/eval.png")
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table (default: a table).")] = False
    web: Annotated[
        bool,
        typer.Option(
            "--web",
            help="Serve a page with the results while they grow, and with two policies side by side, until "
            "interrupted (default: none).",
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.resume and self.save is None:
            raise ValueError("--resume continues from the episodes of a folder: add --save DIR")
        if self.plot.suffix.lower() not in _PLOTS:
            raise ValueError(f"--plot {self.plot}: give a file that ends with {', '.join(_PLOTS)}")


def reset_keywords(environment: str, pairs: list[str], game: str | None) -> dict[str, Any]:
    """Return the keywords of every reset from `KEY=VALUE` pairs and the name of a game.

    Raises ValueError for a pair without `=`, and for a game of an environment that chooses none by name.
    """
    keywords: dict[str, Any] = {}
    if game is not None:
        keyword = game_keyword(environment)
        if keyword is None:
            raise ValueError(f"--game {game}: {environment} chooses no game by name. Write --reset KEY=VALUE.")
        keywords[keyword] = game
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"--reset {pair}: write KEY=VALUE, such as opponent_policy=mcts")
        keywords[key] = json_or_word(value)
    return keywords
