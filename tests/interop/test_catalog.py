"""The published package lists the environments of our catalogs, and ours finds and copies what it lists."""

import os
import subprocess
from pathlib import Path

import pytest

from openenv.catalog.published import read_published
from openenv.certification.card import files_digest
from tests.catalog.published import published_in

pytestmark = pytest.mark.interop

PYTHON = os.environ.get("PUBLISHED_PYTHON", ".venv-published/bin/python")
URI = "https://github.com/ada/environments.git"


def test_a_snapshot_that_the_published_package_has_built_of_our_catalog_is_pulled_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, snapshot, pulled = tmp_path / "catalog", tmp_path / "snapshot.json", tmp_path / "pulled"
    source = published_in(catalog)
    git = ["git", "-C", str(catalog), "-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Add tide_env"]):
        subprocess.run([*git, *arguments], check=True)
    build = ["-m", "openenv.cli", "catalog", "build", "--repository", str(catalog), "--repository-uri", URI]
    where = ["--publisher", "example.com", "--root", "environments", "--output", str(snapshot)]
    subprocess.run([PYTHON, *build, *where], check=True, capture_output=True, timeout=120)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{catalog}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", URI)

    (entry,) = read_published(snapshot).search(["guess"])
    pulled.mkdir()
    entry.pull(pulled)

    assert entry.name == "tide_env"
    assert files_digest(pulled) == files_digest(source)
