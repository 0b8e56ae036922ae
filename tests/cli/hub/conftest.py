"""A Hub on this machine, which the commands of the tests reach as HF_ENDPOINT."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.hub.local_hub import TOKEN, LocalHub


@dataclass
class Hub:
    """The Hub, and where it answers."""

    url: str
    state: LocalHub


@pytest.fixture
def hub(serving, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """A Hub without Spaces, and a signed-in user, for commands in this process and in processes of their own."""
    state = LocalHub()
    url = serving(state.app)
    monkeypatch.setenv("HF_ENDPOINT", url)
    # what it has read when it was imported
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf_home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    return Hub(url, state)
