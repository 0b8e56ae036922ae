"""Catalogs for tests: an environment of `openenv init`, and its card, in a folder."""

from pathlib import Path

from openenv.catalog.index import publish
from openenv.certification.card import Card, files_digest, folder_version, signing_key
from tests.cli.commands import run


def made_environment(folder: Path, name: str, version: str = "0.1.0", description: str = "Guess a number.") -> Path:
    """A new environment, in a folder of its name."""
    run("init", name, "-o", str(folder))
    environment = folder / name
    change(environment / "pyproject.toml", 'version = "0.1.0"', f'version = "{version}"')
    manifest = environment / "openenv.yaml"
    lines = [line for line in manifest.read_text().splitlines() if not line.startswith("description:")]
    manifest.write_text("\n".join([*lines, f"description: {description}"]) + "\n")
    return environment


def change(path: Path, old: str, new: str) -> None:
    """Replace a part of a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def card_of(environment: Path, key: Path, status: str = "pass") -> Card:
    """A signed card of an environment, as if its one proof had this status."""
    return Card(
        name=str(environment), version=folder_version(environment), source=files_digest(environment),
        reset={}, play=None,
        proofs=[{"name": "signal", "status": status, "seen": "a | b <i>", "remedy": "", "figures": {}}],
        command="openenv certify", made="2026-01-01T00:00:00+00:00", minutes=1.5,
    ).signed(signing_key(key))  # fmt: skip


def published_in(catalog: Path, name: str = "tide_env", version: str = "0.1.0", **fields: str) -> Path:
    """Publish a new environment in a catalog. Returns the folder of its source."""
    environment = made_environment(catalog.parent / f"source-{version}", name, version, **fields)
    publish(card_of(environment, catalog.parent / "key.pem"), environment, catalog)
    return environment
