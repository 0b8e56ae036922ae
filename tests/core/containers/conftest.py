"""docker, kubectl, uv and git on PATH that start the real echo server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.core.containers import fake_tools


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the tools' state; no server of theirs outlives the test."""
    monkeypatch.setenv("PATH", str(fake_tools.install(tmp_path)), prepend=":")
    monkeypatch.setenv("FAKE_TOOLS", str(tmp_path))
    yield tmp_path
    left = list(tmp_path.glob("*.json"))
    monkeypatch.setattr(fake_tools, "FOLDER", tmp_path)
    for state in left:
        fake_tools.stop_server(state.stem, forget=True, what="left")
    assert left == [], "a test left a container behind"


@pytest.fixture
def calls_of(tools: Path) -> Callable[[str], list[list[str]]]:
    """The arguments of each call of a tool so far."""
    return lambda tool: fake_tools.calls(tools, tool)
