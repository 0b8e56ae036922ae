"""Records what `openenv show` prints for each environment: `python -m tests.envs.record_shown [NAME ...]`.

Run it after a change of prompts, and read the difference as a stranger would. Without names it writes the files of all
environments that are installed: `.venv-envs/bin/python`, of `make test-envs`, has all but those that need a program.
"""

import sys
from pathlib import Path

from openenv.envs.catalog import CatalogEntry, entries
from tests.cli.commands import run

FOLDER = Path(__file__).parent / "shown"
GAMES = ("blackjack", "tic_tac_toe", "connect_four", "kuhn_poker", "leduc_poker", "liars_dice", "breakthrough")
"""Games of openspiel beside its first one."""


def commands() -> dict[str, tuple[CatalogEntry, list[str]]]:
    """The environment and the arguments of each file, by the file's name."""
    known = {entry.name: (entry, [entry.name]) for entry in entries()}
    openspiel, _ = known["openspiel"]
    return known | {f"openspiel-{game}": (openspiel, ["openspiel", "--game", game]) for game in GAMES}


def shown(arguments: list[str]) -> str:
    """What `openenv show` prints. Raises RuntimeError if it fails."""
    done = run("show", *arguments)
    if done.returncode:
        raise RuntimeError(f"openenv show {' '.join(arguments)}: {done.stderr}")
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def recorded(name: str) -> Path:
    """The file of a name."""
    return FOLDER / f"{name}.txt"


def main(names: list[str]) -> None:
    """Write the files of names, or of all that can be shown here."""
    for name, (entry, arguments) in commands().items():
        if names and name not in names:
            continue
        if not names and (not entry.is_installed or entry.missing_programs):
            print(f"left as it is: {name} ({entry.remedy})")
            continue
        recorded(name).write_text(shown(arguments), encoding="utf-8")
        print(f"written: {recorded(name)}")


if __name__ == "__main__":
    main(sys.argv[1:])
