"""`openenv replay` replays a recorded session."""

import contextlib
import json
from functools import partial

import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.errors import EnvironmentFault
from openenv.core.mcp_client import MCPToolClient
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.evaluation.replay import read_recording
from openenv.hosting.local_process import LocalServer
from tests.cli.commands import run
from tests.core.tool_env import NotebookEnvironment

pytestmark = pytest.mark.process


@pytest.fixture
def recording(serving, tmp_path):
    """A recorded session of two games of tic-tac-toe, one of them with an illegal move."""
    url = serving(create_app(OpenSpielEnvironment, config=ServerConfig(record_dir=tmp_path)))
    with OpenSpielEnv(url) as env:
        for action_ids in ((4, 0, 4), (2, 6)):
            env.reset(game_name="tic_tac_toe")
            for action_id in action_ids:
                with contextlib.suppress(EnvironmentFault):
                    env.step(OpenSpielAction(action_id=action_id))
        return tmp_path / f"{env.session_id}.jsonl"


def test_a_recorded_session_replays_bit_for_bit(recording):
    done = run("replay", str(recording), "--env", "openspiel")
    assert (done.returncode, "7 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.finding("a recording holds what its replay needs")
def test_a_recording_replays_on_a_server_with_the_options_of_the_recorded_one(tmp_path):
    arguments = ["--game", "tic_tac_toe", "--opponent", "first", "--record-dir", str(tmp_path)]
    with (
        LocalServer("openenv.envs.openspiel_env.server.app", arguments) as server,
        OpenSpielEnv(server.base_url) as env,
    ):
        env.reset()
        env.step(OpenSpielAction(action_id=4))
        recording = tmp_path / f"{env.session_id}.jsonl"

    done = run("replay", str(recording))
    assert (done.returncode, "2 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr
    refused = run("replay", str(recording), "--env", "docker:openspiel")
    assert (refused.returncode, "--game tic_tac_toe" in refused.stderr) == (1, True), refused.stderr


def test_a_recording_of_an_environment_that_is_not_installed_asks_for_its_name(recording):
    done = run("replay", str(recording))
    assert (done.returncode, "--env" in done.stderr) == (1, True), done.stderr


def test_a_recording_with_snapshots_replays_through_them(serving, openspiel_url, tmp_path):
    url = serving(create_app(OpenSpielEnvironment, config=ServerConfig(record_dir=tmp_path)))
    with OpenSpielEnv(url) as env:
        env.reset(game_name="tic_tac_toe")
        legal = env.step(OpenSpielAction(action_id=4)).observation.legal_actions
        token = env.save()
        env.step(OpenSpielAction(action_id=legal[0]))
        env.restore(token)
        [branch] = env.fork(1)
        branch.step(OpenSpielAction(action_id=legal[0]))
        env.step(OpenSpielAction(action_id=legal[-1]))
        own, forked = (tmp_path / f"{client.session_id}.jsonl" for client in (env, branch))
        branch.close()

    done = run("replay", str(own), "--env", openspiel_url)
    assert (done.returncode, "7 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr
    refused = run("replay", str(forked), "--env", openspiel_url)
    assert (refused.returncode, "replay the recording of that one" in refused.stderr) == (1, True)


def test_a_recording_of_tool_calls_replays(serving, tmp_path):
    app = partial(create_app, NotebookEnvironment, CallToolAction, CallToolObservation)
    url = serving(app(config=ServerConfig(record_dir=tmp_path)))
    with MCPToolClient(url) as env:
        env.reset()
        env.list_tools()
        env.call_tool("write", text="a")
        with pytest.raises(EnvironmentFault):
            env.call_tool("fail")
        recording = tmp_path / f"{env.session_id}.jsonl"

    done = run("replay", str(recording), "--env", serving(app()))
    assert (done.returncode, "4 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr
    recording.write_text(recording.read_text().replace('"text":"a"', '"text":1'))
    assert run("replay", str(recording), "--env", serving(app())).returncode == 1


def test_a_replay_reports_its_first_difference(recording, openspiel_url):
    lines = recording.read_text().splitlines()
    lines[1] = lines[1].replace('"seed":', '"seed":1')
    recording.write_text("\n".join(lines))
    done = run("replay", str(recording), "--env", openspiel_url)

    assert done.returncode == 1
    assert "observation_sha256 was" in done.stdout
    assert done.stdout.startswith("line 2, reset")


def write_recording(path, head, *requests):
    lines = [{"format": 1, "options": [], **head}, *requests]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("kind", ["file", "folder", "url", "image"])
def test_a_recording_starts_and_calls_nothing_but_environments_that_are_installed(tmp_path, serving, kind):
    ran = tmp_path / "ran"
    folder = tmp_path / "echo_env"
    (folder / "server").mkdir(parents=True)
    (folder / "openenv.yaml").write_text("name: echo_env\n")
    for file in (folder / "server" / "app.py", folder / "own.py"):
        file.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\napp = Own = None\n")
    names = {
        "file": f"{folder}/own.py:Own",
        "folder": str(folder),
        "url": serving(create_app(OpenSpielEnvironment)),
        "image": "docker:any",
    }
    recording = write_recording(
        tmp_path / "a.jsonl", {"environment": names[kind]}, {"verb": "reset", "data": {}, "done": False}
    )

    done = run("replay", str(recording))

    assert (done.returncode, "--env" in done.stderr, ran.exists()) == (1, True, False), done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--host", "--host=0.0.0.0", "--record-d", "--trusted-proxies", "--"])
def test_a_recording_has_no_options_of_servers(tmp_path, option):
    recording = write_recording(tmp_path / "a.jsonl", {"environment": "echo", "options": [option, "0.0.0.0"]})

    with pytest.raises(ValueError, match="an option of servers"):
        read_recording(recording)


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, "9" * 5000, "null", '{"verb": "step"}', '{"verb": "save", "data": {}}', '{"verb": 1, "data": {}}'],
)
def test_a_line_that_is_no_request_is_named(tmp_path, line):
    recording = write_recording(tmp_path / "a.jsonl", {"environment": "echo"})
    with recording.open("a") as file:
        file.write(line + "\n")

    with pytest.raises(ValueError, match=r"a\.jsonl, line 2"):
        read_recording(recording)
