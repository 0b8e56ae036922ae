"""`openenv pull` downloads a Space of the Hub, and runs nothing of it."""

from pathlib import Path

import pytest

from openenv import AutoEnv
from openenv.auto.auto_env import RemoteCodeRefused
from openenv.auto.environment import named_environment
from openenv.core.env_client import EnvClient
from openenv.core.env_server import create_app
from openenv.core.generic_client import GenericEnvClient
from openenv.envs.echo_env import EchoAction
from openenv.envs.echo_env.server.environment import EchoEnvironment
from openenv.hosting.hub import Space
from tests.cli.commands import run, run_process
from tests.cli.hub.conftest import Hub
from tests.cli.hub.local_hub import HubSpace
from tests.integrations_table import Record

pytestmark = pytest.mark.process


@pytest.fixture
def space(hub: Hub) -> HubSpace:
    """A public Space whose modules must not be imported."""
    trap = b"raise AssertionError('a pull runs nothing')\n"
    files = {
        "openenv.yaml": b"name: tide_env\napp: server.app:app\n", "server/app.py": trap, "__init__.py": trap,
        "README.md": b"---\nsdk: docker\n---\n", "Dockerfile": b"FROM x\n",
    }  # fmt: skip
    hub.state.spaces["bob/tide-env"] = HubSpace(files=files)
    return hub.state.spaces["bob/tide-env"]


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_its_help_shows_an_example() -> None:
    assert "openenv pull owner/my-env" in run("pull", "--help").stdout.split("Example")[1]


def test_the_files_are_downloaded_under_the_name_of_the_manifest(
    hub: Hub, space: HubSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    done = run_process("pull", "bob/tide-env", "-o", str(tmp_path / "pulled"))

    assert done.returncode == 0, done.stderr
    assert _files(tmp_path / "pulled") == {f"tide_env/{path}": content for path, content in space.files.items()}
    assert "nothing of it was run" in done.stdout


@pytest.mark.integration("Hub", "push, then pull, then play", package="huggingface_hub")
def test_what_was_pushed_is_pulled_and_plays(hub: Hub, tmp_path: Path, record_property: Record) -> None:
    run("init", "tide_env", "-o", str(tmp_path))
    assert run("push", str(tmp_path / "tide_env"), "--private").returncode == 0
    done = run("pull", "ada/tide_env", "--output-dir", str(tmp_path / "pulled"))
    with named_environment(str(tmp_path / "pulled/tide_env")).running() as url, AutoEnv.from_env(url) as env:
        hint = env.reset(seed=1).observation.hint

    assert done.returncode == 0, done.stderr
    assert hint == "start"
    record_property("figure", f"{len(hub.state.spaces['ada/tide_env'].files)} files")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["tide"], 1, "tide is not in the package"),
        (["bob/"], 2, "ENVIRONMENT 'bob/': write OWNER/NAME"),
        (["bob/none"], 1, "cannot read bob/none"),
        (["bob/page"], 1, "bob/page has no openenv.yaml"),
        (["bob/tide-env"], 2, "tide_env exists already"),
    ],
)
def test_what_cannot_be_pulled_is_refused(
    hub: Hub, space: HubSpace, tmp_path: Path, args: list[str], code: int, words: str
) -> None:
    hub.state.spaces["bob/page"] = HubSpace(files={"index.html": b""})
    (tmp_path / "here/tide_env").mkdir(parents=True)
    done = run("pull", *args, "-o", str(tmp_path / "here"))

    assert done.returncode == code, done.stderr
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert [path.name for path in (tmp_path / "here").rglob("*")] == ["tide_env"]


def test_the_code_of_a_space_of_another_hub_is_not_installed_without_trust(hub: Hub, space: HubSpace) -> None:
    for name in ("bob/tide-env", f"{hub.url}/spaces/bob/tide-env"):
        with pytest.raises(RemoteCodeRefused) as refused:
            AutoEnv.from_env(name)
        assert f"install git+{hub.url}/spaces/bob/tide-env" in str(refused.value)
        assert f"Read {hub.url}/spaces/bob/tide-env" in str(refused.value)
    with pytest.raises(RemoteCodeRefused):
        EnvClient.from_hub("bob/tide-env", use_docker=False)


def test_a_page_is_that_of_the_hub_in_use_or_of_huggingface(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in (f"{hub.url}/spaces/bob/tide-env", "https://huggingface.co/spaces/bob/tide-env", "bob/tide-env/"):
        assert Space(page).page == f"{hub.url}/spaces/bob/tide-env"
    with pytest.raises(ValueError, match=f"give owner/name or {hub.url}/spaces/owner/name"):
        Space("https://example.org/spaces/bob/tide-env")
    monkeypatch.delenv("HF_ENDPOINT")

    assert Space("bob/tide-env").page == "https://huggingface.co/spaces/bob/tide-env"


@pytest.mark.integration("Hub", "from_hub: a running Space is played at its host", package="huggingface_hub")
def test_a_running_space_of_another_hub_is_played_at_its_host(
    hub: Hub, space: HubSpace, serving, record_property: Record
) -> None:
    space.host = serving(create_app(EchoEnvironment))
    with AutoEnv.from_hub("bob/tide-env", skip_install=True) as env:
        env.reset()
        observation = env.step({"message": "hello"}).observation

    assert isinstance(env, GenericEnvClient)
    assert observation["echoed_message"] == EchoAction(message="hello").message
    assert "GET /api/spaces/bob/tide-env" in hub.state.requests
    record_property("figure", "1 episode")
