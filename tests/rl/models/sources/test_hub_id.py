"""A hub is asked for a model by its name at once, and what it answers is an error with the next step."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI, Response

from openenv.rl.config import ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.models.sources.hub_id import require_on_hub
from openenv.rl.setup import setup_training

AnswerFrom = Callable[[str], None]


@pytest.fixture
def hub_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AnswerFrom:
    """Lets the hub be at a URL, with an empty cache and a folder of one model here."""
    (tmp_path / "models/smollm2-135m").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")

    def at(url: str) -> None:
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)

    return at


NOWHERE = "http://127.0.0.1:9"


def test_a_name_is_refused_at_once_where_no_hub_is_reached(hub_at: AnswerFrom) -> None:
    hub_at(NOWHERE)
    began = time.monotonic()

    with pytest.raises(ConfigError, match=r"the hub is not reached: .*Did you mean models/smollm2-135m\?"):
        require_on_hub("smolm2-135")
    assert time.monotonic() - began < 10.0


async def test_a_run_with_such_a_model_ends_before_its_servers_start(hub_at: AnswerFrom) -> None:
    hub_at(NOWHERE)

    with pytest.raises(ConfigError, match=r"model\.path='smolm2-135'"):
        await setup_training(config_from_mapping({"env": "guess", "model": "smolm2-135"}))


@pytest.mark.parametrize(
    ("status", "code", "problem"),
    [
        (404, "RepoNotFound", r"no model of this name that your token may read \(HTTP 404\)"),
        (401, "", r"\(HTTP 401\)"),
        (403, "GatedRepo", r"\(HTTP 403\)"),
        (503, "", None),
        (200, "", None),
    ],
)
def test_the_hubs_answer_decides(serving, hub_at: AnswerFrom, status: int, code: str, problem: str | None) -> None:
    app = FastAPI()

    @app.head("/{rest:path}")
    async def answer() -> Response:
        return Response(status_code=status, headers={"X-Error-Code": code, "ETag": '"1"'})

    hub_at(serving(app))

    if problem is None:
        require_on_hub("own/model")
    else:
        with pytest.raises(ConfigError, match=problem):
            require_on_hub("own/model")


@pytest.mark.parametrize("path", ["", "models/smollm2-135m", "own/cached"])
def test_no_hub_is_asked_for_a_folder_or_what_is_in_the_cache(hub_at: AnswerFrom, tmp_path: Path, path: str) -> None:
    hub_at(NOWHERE)
    repository = tmp_path / "cache/models--own--cached"
    (repository / "snapshots/1").mkdir(parents=True)
    (repository / "snapshots/1/config.json").touch()
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("1", encoding="utf-8")

    require_on_hub(path)
