"""The Dockerfile of an environment: a file of its folder, or what the manifest of a bundled environment declares."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from openenv.envs.catalog import CatalogEntry, entries
from openenv.formats.json_text import json_text
from openenv.installation import BUNDLE

BASE = "openenv-base"
"""The image that the Dockerfiles of environments begin with."""
_DEBIAN = "apt-get update && apt-get install --yes --no-install-recommends {} && rm -rf /var/lib/apt/lists/*"
_EXTRA = 'pip install --no-cache-dir --constraint /srv/openenv/constraints.txt "{}[{}]"'
_REAPER = "tini"
"""The package of Debian that ends the processes which programs leave, in front of the server."""


@contextmanager
def dockerfile_in(folder: Path) -> Iterator[Path]:
    """The Dockerfile of an environment's folder, which may not be there. That of a bundled one is a temporary file."""
    text = bundled_dockerfile(folder)
    if text is None:
        inner = folder / "server" / "Dockerfile"
        yield inner if inner.is_file() else folder / "Dockerfile"
        return
    with TemporaryDirectory() as temporary:
        path = Path(temporary, "Dockerfile")
        path.write_text(text, encoding="utf-8")
        yield path


def bundled_dockerfile(folder: Path) -> str | None:
    """The Dockerfile of the bundled environment in a folder; None for another folder."""
    return next((dockerfile_text(entry) for entry in entries() if entry.folder == folder.resolve()), None)


def dockerfile_text(entry: CatalogEntry) -> str:
    """The Dockerfile of a bundled environment."""
    commands = [_DEBIAN.format(" ".join(entry.debian))] if entry.debian else []
    commands += [_EXTRA.format(BUNDLE, entry.extra)] if entry.extra else []
    reaper = [_REAPER, "--"] if _REAPER in entry.debian else []
    lines = [
        f"FROM {BASE}",
        *(f"RUN {command}" for command in commands),
        "USER 1000:1000",
        f"ENTRYPOINT {json_text([*reaper, 'python', '-m', entry.server])}",
        'CMD ["--host", "0.0.0.0", "--port", "8000"]',
    ]
    return "\n".join(lines) + "\n"
