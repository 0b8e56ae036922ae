"""The classes that pages of the published package are made with: a manager of one environment, its metadata, and the
quick start."""

import pytest

from openenv.web.published.interface import (
    WebInterfaceManager,
    get_quick_start_markdown,
    load_environment_metadata,
)
from tests.core.counting_env import AsyncEnvironment, CountAction, CountingEnvironment, CountObservation

pytestmark = pytest.mark.finding("every public name of the published package exists here")

MESSAGES = (CountAction, CountObservation)


class Socket:
    """A connection of a page that may break."""

    def __init__(self):
        self.received, self.is_broken = [], False

    async def accept(self):
        self.received.append("accepted")

    async def send_text(self, text):
        if self.is_broken:
            raise RuntimeError("closed")
        self.received.append(text)


@pytest.mark.parametrize("environment_cls", [CountingEnvironment, AsyncEnvironment])
async def test_a_manager_plays_an_environment_for_all_pages_that_are_connected(environment_cls):
    manager = WebInterfaceManager(environment_cls(), *MESSAGES)
    stays, breaks = Socket(), Socket()
    await manager.connect_websocket(stays)
    await manager.connect_websocket(breaks)
    await manager.reset_environment({"start": 4})
    breaks.is_broken = True
    stepped = await manager.step_environment({"amount": "2"})

    assert stepped["observation"]["total"] == manager.get_state()["total"] == 6
    assert (manager.episode_state.step_count, manager.episode_state.action_logs[0].reward) == (1, 2.0)
    assert '"total": 6' in stays.received[-1]
    assert manager.connected_clients == [stays]
    await manager.disconnect_websocket(stays)
    assert manager.connected_clients == []


def test_metadata_of_a_class_comes_from_its_docstring_and_no_environment_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "README.md"))
    (tmp_path / "README.md").write_text("# Counts")

    def make():
        raise AssertionError("made")

    assert load_environment_metadata(make, "counting").name == "counting"
    assert load_environment_metadata(CountingEnvironment).description == "Adds amounts; ends at ten."
    assert load_environment_metadata(CountingEnvironment()).readme_content == "# Counts"


def test_the_quick_start_names_client_action_and_required_fields():
    markdown = get_quick_start_markdown(load_environment_metadata(CountingEnvironment), *MESSAGES)

    assert 'with CountEnv(base_url="http://localhost:8000") as env:' in markdown
    assert "env.step(CountAction(amount=...))" in markdown
