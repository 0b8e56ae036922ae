"""The Dockerfile of every environment follows from its manifest, and begins with the common base."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from openenv.cli.containers.dockerfile import dockerfile_in, dockerfile_text
from openenv.envs.catalog import CatalogEntry, entries, load
from openenv.hosting import images

BASE = Path(images.__file__).with_name("Dockerfile")
ROOT: dict[str, str] = {}
"""Environments whose server is root in its container, and why."""
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

each_environment = pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)


def instructions(entry: CatalogEntry) -> list[tuple[str, str]]:
    """The instructions of its Dockerfile."""
    lines = [line.partition(" ") for line in dockerfile_text(entry).splitlines()]
    return [(word, rest) for word, _, rest in lines]


def value(entry: CatalogEntry, word: str) -> str:
    (found,) = [rest for name, rest in instructions(entry) if name == word]
    return found


@each_environment
def test_a_dockerfile_begins_with_the_base_and_ends_with_the_server_and_its_address(entry: CatalogEntry) -> None:
    command = [part for part in json.loads(value(entry, "ENTRYPOINT")) if part not in ("tini", "--")]

    assert value(entry, "FROM") == "openenv-base"
    assert command == ["python", "-m", entry.server]
    assert find_spec(entry.server) is not None
    assert json.loads(value(entry, "CMD")) == ["--host", "0.0.0.0", "--port", "8000"]


@each_environment
def test_the_server_is_an_ordinary_user_by_number_as_clusters_require(entry: CatalogEntry) -> None:
    words = [word for word, _ in instructions(entry)]

    assert (value(entry, "USER") == "1000:1000") is (entry.name not in ROOT)
    assert "RUN" not in words[words.index("USER") :]


@each_environment
def test_the_extra_of_the_manifest_is_installed_in_the_versions_that_are_tested(entry: CatalogEntry) -> None:
    installed = [rest for word, rest in instructions(entry) if word == "RUN" and "pip install" in rest]
    wanted = [f'"openenv-rl[{entry.extra}]"'] if entry.extra else []

    assert [line.split()[-1] for line in installed] == wanted
    assert all("--constraint /srv/openenv/constraints.txt" in line for line in installed)
    assert not entry.extra or re.search(rf"^{entry.extra} = ", PYPROJECT.read_text(encoding="utf-8"), re.MULTILINE)


@each_environment
def test_the_programs_of_the_manifest_are_installed(entry: CatalogEntry) -> None:
    installed = " ".join(rest for word, rest in instructions(entry) if word == "RUN" and "apt-get install" in rest)

    assert [program for program in entry.programs if f" {program} " not in installed] == []


@each_environment
def test_a_folder_of_a_bundled_environment_has_the_dockerfile_while_it_is_built(entry: CatalogEntry) -> None:
    with dockerfile_in(entry.folder) as path:
        text = path.read_text(encoding="utf-8")

    assert text == dockerfile_text(entry)
    assert not path.exists()


def test_a_chromium_runs_below_a_process_that_reaps_what_it_leaves() -> None:
    assert json.loads(value(load("browser"), "ENTRYPOINT"))[:2] == ["tini", "--"]


def test_the_base_has_the_health_check_the_port_and_a_user_without_a_home() -> None:
    text = BASE.read_text(encoding="utf-8")

    assert 'HEALTHCHECK CMD ["python", "-I", "-S", "/srv/openenv/health_check.py"]' in text
    assert "EXPOSE 8000" in text
    assert "useradd --uid 1000 --no-create-home --home-dir /tmp" in text


def test_the_engine_gets_what_the_base_is_made_of_and_nothing_else_of_the_repository() -> None:
    ignored = PYPROJECT.with_name(".dockerignore").read_text(encoding="utf-8").splitlines()

    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == {
        "src", "pyproject.toml", "README.md", "LICENSE", "constraints.txt",
    }  # fmt: skip
