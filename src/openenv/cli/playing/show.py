"""`openenv show`: what a language model is shown in an environment, and how its replies are read."""

from collections.abc import Collection, Iterator
from random import Random
from typing import Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from openenv.auto.environment import named_environment
from openenv.auto.resolver import FORMS
from openenv.cli.completion import environment_names
from openenv.cli.playing.evaluation_options import reset_keywords
from openenv.core.env_server.types import Action
from openenv.core.errors import InvalidMessage
from openenv.policies import PromptBuilder
from openenv.text.action_forms import chosen_fields
from openenv.text.content import text_of
from openenv.text.derived import DerivedText
from openenv.text.interface import TextInterface

EXAMPLE = "Examples: `openenv show openspiel --game catch`, `openenv show game.py:GameEnvironment --reply seven`"
_NO_ACTION = "I do not know"
_DRAWS = 20
"""Replies of random play, of which the first two that differ are shown."""


def show(
    environment: str = typer.Argument(help=f"Show this environment: {FORMS}.", autocompletion=environment_names),
    game: str = typer.Option(None, help="Show this game, where the environment has several (default: the server's)."),
    reset: list[str] = typer.Option(
        [], help="Send KEY=VALUE with the reset; VALUE is JSON or a word. Repeatable (default: none)."
    ),
    reply: list[str] = typer.Option(
        [], help="Read this reply. Repeatable (default: two replies of random play, and one that names no action)."
    ),
    text: str = typer.Option(
        None, help="Use this text interface, MODULE:CLASS or FILE.py:CLASS (default: the environment's own)."
    ),
    seed: int = typer.Option(0, min=0, help="Show the episode of this seed."),
) -> None:
    """Print the prompt of an episode's first turn, what a model may reply, and how some replies are read. A reply that
    names an action is also played."""
    named = named_environment(environment, text=text)
    console = Console(emoji=False)
    with named.served() as served:
        keywords = {"seed": seed, **reset_keywords(environment, reset, game)}
        with served.client() as client:
            first = client.reset(**keywords).observation
            for message in PromptBuilder(served.text, instructions=True).messages(0, first):
                console.print(Panel(Text(text_of(message["content"])), title=message["role"], title_align="left"))
            rng = Random(seed)
            drawn = dict(served.text.random_reply(first, rng) for _ in range(_DRAWS))
            if isinstance(served.text, DerivedText):
                console.print(Text(_unset_fields(drawn.values())), end="")
            shown = reply or [*list(drawn)[:2], _NO_ACTION]
            for written in shown:
                client.reset(**keywords)
                console.print(Text("\n".join(_readings(client, served.text, first, written))))


def _unset_fields(actions: Collection[Action]) -> str:
    """A line with the fields that no reply sets; empty if there are none."""
    known = set().union(*(chosen_fields(kind) for kind in {type(action) for action in actions}))
    unset = known.difference(*(action.model_fields_set for action in actions))
    if not unset:
        return ""
    return f"No reply sets {', '.join(sorted(unset))}: fields with a default keep it beside one that has none.\n"


def _readings(client: Any, text: TextInterface[Any, Any], observation: Any, reply: str) -> Iterator[str]:
    """How a reply is read, and the result of its action, line by line."""
    yield f"reply: {reply}"
    action = text.parse(reply, observation)
    if action is None:
        yield f"  names no action: {text.problem(reply, observation)}"
        return
    fields = action.model_dump(mode="json", exclude_defaults=True)
    yield f"  action: {', '.join(f'{name}={value!r}' for name, value in fields.items())}"
    try:
        result = client.step(action)
    except InvalidMessage as error:  # by a rule of the environment's own class that no schema has
        yield f"  refused: {error}"
        return
    yield f"  then: {text_of(text.describe(result.observation))}"
    yield f"  reward: {result.reward}, done: {result.done}"
