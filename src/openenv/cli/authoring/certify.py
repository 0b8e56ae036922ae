"""`openenv certify`: prove that an environment rewards what it should, and write a signed card."""

import shlex
import sys
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openenv.auto.environment import named_environment
from openenv.auto.resolver import FORMS, resolve
from openenv.catalog.index import listing, publish
from openenv.certification.card import Card, CardError, signing_key, source_digest
from openenv.certification.subject import Proof
from openenv.certification.suite import certify as make_card
from openenv.cli.authoring.check import COLOURS
from openenv.cli.completion import environment_names
from openenv.cli.playing.evaluation_options import reset_keywords
from openenv.evaluation.tables import table_console

EXAMPLE = "Examples: `openenv certify my_env`, `openenv certify snake --minutes 4`, `openenv certify my_env --verify " \
    "card.json`"  # fmt: skip
_KEY = Path(typer.get_app_dir("openenv")) / "certify.pem"


def certify(
    target: str = typer.Argument(
        help=f"Certify this environment: {FORMS}.", metavar="ENVIRONMENT", autocompletion=environment_names
    ),
    game: str | None = typer.Option(None, help="Certify this game, where there are several (default: the server's)."),
    reset: list[str] = typer.Option(
        [], help="Send KEY=VALUE with every reset; VALUE is JSON or a word. Repeatable (default: none)."
    ),
    seed: int = typer.Option(0, min=0, help="Start the first episode from this seed."),
    minutes: float = typer.Option(
        8.0, min=0.5, help="Take about this long (default 8); training has half of it.", show_default=False
    ),
    train: bool = typer.Option(True, help="Train a tiny model with three seeds, too."),
    out: Path = typer.Option(
        Path("card.json"), dir_okay=False, help="Write the card to this file (default card.json).", show_default=False
    ),
    key: Path = typer.Option(
        _KEY,
        dir_okay=False,
        help="Sign with the Ed25519 key of this PEM file, which is made if it is not there (default: the user's own).",
        show_default=False,
    ),
    publish_to: Path | None = typer.Option(
        None,
        "--publish",
        file_okay=False,
        help="Add the environment, a folder, and its card to the catalog of this folder (default: to none).",
    ),
    verify: Path | None = typer.Option(
        None,
        dir_okay=False,
        help="Prove nothing: check that the signature and the source are those of this card (default: prove).",
    ),
) -> None:
    """Prove that an environment rewards what it should: good play reaches the best return, what is no answer earns
    nothing, no sequence of actions earns more, changed rules are noticed, and a tiny model learns. The command writes a
    signed card with the figures. The exit code is 1 if a proof fails."""
    if verify is not None:
        _verify(target, verify)
        return
    if publish_to is not None:
        if resolve(target).kind != "folder":
            raise typer.BadParameter(f"--publish: {target} is no folder with openenv.yaml, which a catalog can have")
        listing(resolve(target).folder, publish_to)  # an error now, and not after the minutes of the proofs
    signer = signing_key(key)
    terminal = Console(stderr=True, emoji=False)
    with terminal.status("starting") as status:

        def on_proof(proof: Proof) -> None:
            if not terminal.is_terminal:
                terminal.print(f"{proof.name}: {proof.result.status}", highlight=False)

        card = make_card(
            target,
            reset=reset_keywords(target, reset, game),
            seed=seed,
            minutes=minutes,
            trains=train,
            command=shlex.join(["openenv", *sys.argv[1:]]),
            on_progress=lambda now: status.update(f"proving: {escape(now)}"),
            on_proof=on_proof,
        ).signed(signer)
    out.write_text(card.text(), encoding="utf-8")
    table_console().print(table(card))
    typer.echo(f"card: {out}, signed with {card.fingerprint}")
    if not card.ok:
        raise typer.Exit(1)
    if publish_to is not None:
        typer.echo(f"published {publish(card, resolve(target).folder, publish_to)} in {publish_to}")


def table(card: Card) -> Table:
    """Return a table with a row for each proof of a card."""
    shown = Table(title=f"{card.name}: {card.minutes:.1f} minutes", box=box.SIMPLE, pad_edge=False)
    for heading in ("proof", ""):
        shown.add_column(heading, no_wrap=True)
    for heading in ("seen", "remedy"):
        shown.add_column(heading)
    for one in card.proofs:
        status = one["status"]
        shown.add_row(one["name"], f"[{COLOURS[status]}]{status}[/]", escape(one["seen"]), escape(one["remedy"]))
    return shown


def _verify(target: str, path: Path) -> None:
    """Print whether a card is that of an environment. Ends with exit code 1 if it is not."""
    try:
        card = Card.read(path)
        card.verify()
    except CardError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    digest = source_digest(named_environment(target))
    if digest is None:
        typer.echo(f"Error: the source of {target} is not on this machine: give its folder", err=True)
        raise typer.Exit(1)
    if digest != card.source:
        typer.echo(f"Error: {target} has the source {digest}, and the card is of {card.source}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{path} is the card of {target}, signed with {card.fingerprint} at {card.made}")
