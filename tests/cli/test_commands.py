"""The commands as a person runs them: in a process of their own, with real servers."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from functools import partial

import pytest

from openenv.core.containers.local_process import wait_until_healthy
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.errors import CapacityReached, EnvironmentFault
from openenv.core.mcp_client import MCPToolClient
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.core.tool_env import NotebookEnvironment

OPENENV = [sys.executable, "-m", "openenv"]


def run(*args, cwd=None):
    env = {**os.environ, "COLUMNS": "200"}
    return subprocess.run([*OPENENV, *args], capture_output=True, text=True, timeout=120, cwd=cwd, env=env, check=False)


@pytest.mark.parametrize("verb", ["envs", "serve", "eval", "replay", "train"])
def test_each_help_shows_an_example(verb):
    shown = run(verb, "--help")
    assert shown.returncode == 0
    assert f"openenv {verb}" in shown.stdout.split("Example")[1]


def test_envs_says_what_there_is_and_whether_it_is_installed():
    found = {row["name"]: row for row in json.loads(run("envs", "--json").stdout)}

    assert found["echo"]["installed"]
    assert found["openspiel"]["extra"] == "openspiel"


def test_eval_prints_a_medal_table_and_draws_a_plot(tmp_path):
    command = ["eval", "--game", "catch", "--policy", "random,smart", "--episodes", "20", "--plot", "out/plot.png"]
    done = run(*command, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "🥇 │ smart" in done.stdout
    assert "100.0%" in done.stdout
    assert (tmp_path / "out/plot.png").read_bytes().startswith(b"\x89PNG")


def test_eval_prints_json_for_programs(tmp_path):
    done = run("eval", "--game", "catch", "--policy", "smart", "--episodes", "5", "--json", cwd=tmp_path)
    (row,) = json.loads(done.stdout)

    assert (row["name"], row["num_episodes"], row["win_rate"]) == ("smart", 5, 1.0)


def test_eval_plays_the_same_episodes_for_the_same_seed(tmp_path):
    command = ["eval", "--game", "blackjack", "--policy", "random", "--episodes", "40", "--seed", "3", "--json"]
    assert run(*command, cwd=tmp_path).stdout == run(*command, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["eval", "--policy", "smrt"], "Did you mean 'smart'?"),
        (["eval", "--env", "openspeel"], "Did you mean 'openspiel'?"),
        (["eval", "--policy", "llm:qwen"], "llm:MODEL@URL"),
        (["eval", "--reset", "opponent"], "write KEY=VALUE"),
        (["eval", "--url", "http://127.0.0.1:9"], "is the server running"),
        (["serve", "nothing"], "is not among echo, openspiel"),
        (["serve", "json:nothing"], "has no 'nothing'"),
        (["serve", "json:loads", "--workers", "0"], "workers=0: give 1"),
    ],
)
def test_a_wrong_argument_is_said_in_one_line_with_the_remedy(args, words, tmp_path):
    done = run(*args, cwd=tmp_path)

    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_evaluation_whose_episodes_all_fail_says_why(tmp_path):
    done = run("eval", "--game", "blackjak", "--episodes", "2", cwd=tmp_path)

    assert done.returncode == 1
    assert "Did you mean 'blackjack'" in done.stderr


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_serve_serves_until_interrupted(port):
    process = subprocess.Popen([*OPENENV, "serve", "echo", "--port", str(port)], stderr=subprocess.PIPE)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
            assert env.step(EchoAction(message="hello")).reward == pytest.approx(0.5)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    assert b"Traceback" not in errors


def test_serve_takes_the_limits_of_a_server(port, tmp_path):
    options = ["--max-sessions", "1", "--record-dir", str(tmp_path / "recordings")]
    process = subprocess.Popen([*OPENENV, "serve", "echo", "--port", str(port), *options])
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as env:
            env.reset()
            with pytest.raises(CapacityReached, match="1/1"):
                EchoEnv(base_url=env.base_url).reset()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)

    assert len(list((tmp_path / "recordings").glob("*.jsonl"))) == 1


def test_serve_shares_the_sessions_of_an_authors_own_application_among_workers(port, tmp_path):
    (tmp_path / "my_env.py").write_text(
        "from openenv.core.env_server import create_app\n"
        "from openenv.envs.echo_env.server.environment import EchoEnvironment\n"
        "app = create_app(EchoEnvironment)\n"
    )
    command = [*OPENENV, "serve", "my_env:app", "--port", str(port), "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        with EchoEnv(base_url=f"http://127.0.0.1:{port}") as first, EchoEnv(base_url=first.base_url) as second:
            for env in (first, second):
                env.reset()
                assert env.step(EchoAction(message="hello")).reward == pytest.approx(0.5)
            workers = {env.session_id.partition("-")[0] for env in (first, second)}
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    assert workers == {"w0", "w1"}
    assert (process.returncode, b"Traceback" in errors) == (0, False)


def test_serve_hands_further_options_to_the_environments_server(port):
    process = subprocess.Popen([*OPENENV, "serve", "openspiel", "--game", "kuhn_poker", "--port", str(port)])
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=30)
        body = urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/reset", method="POST")).read()
        assert json.loads(body)["metadata"]["game_name"] == "kuhn_poker"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


def test_an_interrupted_evaluation_keeps_what_was_played(tmp_path):
    endless = ["--policy", "smart,random", "--episodes", "20000", "--sessions", "16"]
    process = subprocess.Popen(
        [*OPENENV, "--verbose", "eval", "--game", "catch", *endless],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while "finished policy=smart" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)

    assert process.returncode == 130
    assert "smart" in out
    assert "random" not in out


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


def test_a_recorded_session_is_replayed_bit_for_bit(recording):
    done = run("replay", str(recording))
    assert (done.returncode, "7 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_recording_with_snapshots_is_replayed_through_them(serving, tmp_path):
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

    done = run("replay", str(own))
    assert (done.returncode, "7 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr
    refused = run("replay", str(forked))
    assert (refused.returncode, "replay that one's recording" in refused.stderr) == (1, True)


def test_a_recording_of_tools_is_replayed(serving, tmp_path):
    app = partial(create_app, NotebookEnvironment, CallToolAction, CallToolObservation)
    url = serving(app(config=ServerConfig(record_dir=tmp_path)))
    with MCPToolClient(url) as env:
        env.reset()
        env.list_tools()
        env.call_tool("write", text="a")
        with pytest.raises(EnvironmentFault):
            env.call_tool("fail")
        recording = tmp_path / f"{env.session_id}.jsonl"

    done = run("replay", str(recording), "--url", serving(app()))
    assert (done.returncode, "4 requests, all as recorded" in done.stdout) == (0, True), done.stdout + done.stderr
    recording.write_text(recording.read_text().replace('"text":"a"', '"text":1'))
    assert run("replay", str(recording), "--url", serving(app())).returncode == 1


def test_a_replay_that_goes_another_way_says_where(recording):
    lines = recording.read_text().splitlines()
    lines[1] = lines[1].replace('"seed":', '"seed":1')
    recording.write_text("\n".join(lines))
    done = run("replay", str(recording))

    assert done.returncode == 1
    assert "observation_sha256 was" in done.stdout
    assert done.stdout.startswith("line 2, reset")


TINY_RUN = """
name: tiny
env: {name: openspiel, reset: {game_name: catch}}
model: {hidden_size: 32, num_layers: 1}
group_size: 4
rollout_threads: 8
reading: {max_episodes: 200, max_decisions: 800, steps: 20, batch_size: 64}
trainer: {training: {steps: 100000, max_minutes: 10}}
replay_buffer: {batch_decisions: 200}
evaluation: {num_games: 64, sessions: 32}
"""


def test_train_prints_the_table_and_writes_the_report(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    done = run("train", "tiny.yaml", "--steps", "3", "--game", "tic_tac_toe", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    for player in ("random", "before GRPO (sampled)", "after GRPO (greedy)", "optimum"):
        assert player in done.stdout
    assert "<svg" in (tmp_path / "runs/tic_tac_toe/report.html").read_text()


def test_an_interrupted_training_keeps_what_was_made(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    process = subprocess.Popen(
        [*OPENENV, "train", "tiny.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "runs/tiny/metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert (tmp_path / "runs/tiny/report.html").exists()


def test_a_wrong_key_of_the_yaml_is_named(tmp_path):
    (tmp_path / "wrong.yaml").write_text("group_sise: 4\n")
    done = run("train", "wrong.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "group_size" in done.stderr
