"""Files of episodes that `openenv eval --save` has written, with baselines and with a model behind an endpoint."""

from pathlib import Path

import pytest

from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.integrations.data import load_episodes
from tests.chat_server import ChatService, call
from tests.cli.commands import run
from tests.conftest import running


def played(folder: Path, *command: str) -> list[Path]:
    """The files of an evaluation in a folder, which is made."""
    folder.mkdir(exist_ok=True)
    done = run("eval", *command, "--save", "episodes", cwd=folder)
    assert done.returncode == 0, done.stderr
    return sorted((folder / "episodes").glob("*.jsonl"))


@pytest.fixture(scope="session")
def blackjack_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """30 games of two baselines, on equal deals."""
    folder = tmp_path_factory.mktemp("blackjack")
    return played(folder, "openspiel", "--game", "blackjack", "--policy", "chart,random", "--episodes", "30")


@pytest.fixture(scope="session")
def blackjack(blackjack_files: list[Path]) -> list[RecordedEpisode]:
    return load_episodes(blackjack_files)


@pytest.fixture(scope="session")
def called(tmp_path_factory: pytest.TempPathFactory) -> list[RecordedEpisode]:
    """Calendar tasks of a model that lists people, calls a tool that is not there, and finishes."""
    replies = {0: call("list_people", {}), 1: call("no_such_tool", {}), 2: call("finish", {})}
    service = ChatService(lambda body: replies[sum(m["role"] == "assistant" for m in body["messages"])])
    with running(service.app()) as url:
        command = ["calendar", "--policy", f"llm:tiny@{url}/v1", "--episodes", "3", "--retries", "1"]
        return load_episodes(played(tmp_path_factory.mktemp("calendar"), *command))
