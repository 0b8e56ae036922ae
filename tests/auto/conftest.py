"""Installed packages, and a Hub whose Spaces run or do not, for tests of environments by name."""

import contextlib
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, whose modules are unloaded after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.startswith("maze_env")]:
        del sys.modules[name]


def answer_for_hub(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], Any]) -> None:
    """Let requests to Spaces be answered here: a test has no network."""
    urlopen = urllib.request.urlopen
    monkeypatch.setattr(
        urllib.request,
        "urlopen",
        lambda url, *args, **kwargs: answer(url) if ".hf.space" in str(url) else urlopen(url, *args, **kwargs),
    )


@pytest.fixture
def no_running_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Space runs at the Hub."""

    def refuse(url: str) -> Any:
        raise urllib.error.URLError(f"{url} is not running")

    answer_for_hub(monkeypatch, refuse)


@pytest.fixture
def running_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Space runs at the Hub."""
    answer_for_hub(monkeypatch, contextlib.nullcontext)
