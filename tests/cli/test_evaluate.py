"""`openenv eval` compares policies."""

import itertools
import json
import re
import signal
import subprocess
import time
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from openenv.cli.playing.evaluate import as_row
from openenv.evaluation.episode_files.records import read_episodes
from openenv.evaluation.intervals import EpisodeResult, summarize
from openenv.formats.json_text import json_text
from tests.cli.commands import OPENENV, run

pytestmark = pytest.mark.process


def test_eval_prints_a_medal_table_and_draws_a_plot(tmp_path):
    command = ["eval", "--game", "catch", "--policy", "random,smart", "--episodes", "20", "--plot", "out/plot.png"]
    done = run(*command, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "🥇 │ smart" in done.stdout
    assert "100.0%" in done.stdout
    assert (tmp_path / "out/plot.png").read_bytes().startswith(b"\x89PNG")


def test_an_environment_without_an_end_is_stopped_after_a_thousand_steps(tmp_path):
    done = run("eval", "echo", "--episodes", "1", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "1000.0" in done.stdout  # steps
    assert "did not end within --max-steps" in done.stderr


GATES = """
from openenv import Action, Environment, Observation, State


class Turn(Action):
    degrees: int


class Gates(Environment[Turn, Observation, State]):
    def reset(self, seed=None, episode_id=None, **kwargs):
        self._seed = seed or 0
        return Observation()

    def step(self, action, timeout_s=None, **kwargs):
        if self._seed % 2:
            raise ValueError("the gate is shut")
        return Observation(reward=1.0, done=True)

    @property
    def state(self):
        return State()
"""


def test_where_the_environment_refuses_actions_the_remedy_is_named_and_no_cell_is_cut(tmp_path):
    (tmp_path / "gates.py").write_text(GATES)
    done = run("eval", "gates.py:Gates", "--policy", "random", "--episodes", "4", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "refused the action: the gate is shut (2 times). To change: name the legal actions" in done.stderr
    assert "…" not in done.stdout
    for heading in ("mean return", "episodes", "stopped", "unparseable", "invalid"):
        assert heading in done.stdout


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ('{}["gate"]', "step: step() raised KeyError: 'gate' (2 times)"),
        ("return {}", "returned dict: it must return an Observation: reward and done are fields of it (2 times)"),
    ],
)
def test_a_fault_of_the_code_has_no_remedy_for_refused_actions(tmp_path, code, reason):
    (tmp_path / "gates.py").write_text(GATES.replace('raise ValueError("the gate is shut")', code))
    done = run("eval", "gates.py:Gates", "--policy", "random", "--episodes", "4", cwd=tmp_path)

    assert reason in done.stderr
    assert "refuses actions" not in done.stderr


def test_an_environment_that_cannot_be_made_is_the_error_and_not_its_server(tmp_path):
    (tmp_path / "gates.py").write_text(
        GATES + "\n    def __init__(self):\n        raise RuntimeError('no data file')\n"
    )
    done = run("eval", "gates.py:Gates", cwd=tmp_path)

    assert done.returncode == 1
    assert "answers 500: Gates could not be made: no data file" in done.stderr
    assert "is the server running" not in done.stderr


def test_eval_prints_json_for_programs(openspiel_url, tmp_path):
    command = ["eval", openspiel_url, "--game", "catch", "--policy", "smart", "--episodes", "5", "--json"]
    done = run(*command, cwd=tmp_path)
    (row,) = json.loads(done.stdout)

    assert (row["name"], row["num_episodes"], row["win_rate"]) == ("smart", 5, 1.0)


def test_a_number_that_is_not_known_is_null_in_json():
    silent = summarize("mute", [EpisodeResult(seed=0, total_reward=0.0, num_steps=1, outcome="unparseable")])

    row = json.loads(json_text(as_row(silent)))

    assert (row["mean_return"], row["return_interval"], row["win_rate"]) == (None, [None, None], None)


def test_a_model_behind_an_endpoint_may_reply_again_after_a_reply_without_a_legal_action(
    openspiel_url, serving, tmp_path
):
    app = FastAPI()

    @app.post("/v1/chat/completions")
    def complete(body: dict[str, Any]) -> Any:
        is_corrected = "names none of" in body["messages"][-1]["content"]
        return {"choices": [{"message": {"content": "stay" if is_corrected else "jump"}}]}

    model = f"llm:tiny@{serving(app)}/v1"
    command = ["eval", openspiel_url, "--game", "catch", "--policy", model, "--episodes", "3", "--json"]
    outcomes = []
    for retries in ("0", "1"):
        (row,) = json.loads(run(*command, "--retries", retries, cwd=tmp_path).stdout)
        outcomes.append((row["num_unparseable"], row["mean_steps"]))

    assert outcomes == [(3, 0.0), (0, 9.0)]


@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
def test_one_refused_request_makes_one_episode_invalid_and_resume_plays_it_again(openspiel_url, serving, tmp_path):
    app, requests = FastAPI(), itertools.count(1)

    @app.post("/v1/chat/completions")
    def complete(body: dict[str, Any]) -> Any:
        if next(requests) == 5:
            return JSONResponse({"error": {"message": "the prompt was filtered"}}, 400)
        return {"choices": [{"message": {"content": "stay"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}

    model = f"llm:tiny@{serving(app)}/v1"
    options = ["--game", "catch", "--policy", model, "--episodes", "6", "--sessions", "2", "--save", "saved", "--json"]
    first = run("eval", openspiel_url, *options, cwd=tmp_path)
    (row,) = json.loads(first.stdout)
    assert (first.returncode, row["num_episodes"], row["num_invalid"]) == (0, 5, 1)
    assert list(row["invalid_reasons"].values()) == [1]
    assert "returned 400: change the request" in first.stderr

    played = next(requests)
    resumed = run("eval", openspiel_url, *options, "--resume", cwd=tmp_path)
    (row,) = json.loads(resumed.stdout)

    assert (row["num_episodes"], row["num_invalid"], row["num_replies"]) == (6, 0, 6 * 9)
    assert (row["prompt_tokens"], next(requests) - played) == (6 * 9 * 7, 9 + 1)
    (file,) = (tmp_path / "saved").iterdir()
    assert sorted(episode.seed for episode in read_episodes(file)) == list(range(6))


@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
def test_a_killed_evaluation_goes_on_with_the_episodes_that_had_ended(openspiel_url, tmp_path):
    options = ["--game", "catch", "--policy", "smart", "--sessions", "1", "--save", "saved", "--json"]
    run("eval", openspiel_url, *options, "--episodes", "3", cwd=tmp_path)
    file = tmp_path / "saved" / "1-smart.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])  # the last line was being written

    resumed = run("eval", openspiel_url, *options, "--episodes", "4", "--resume", cwd=tmp_path)
    (row,) = json.loads(resumed.stdout)

    assert (row["num_episodes"], row["num_won"]) == (4, 4)
    assert file.read_bytes().startswith(whole)


def test_resume_refuses_the_episodes_of_another_evaluation(openspiel_url, tmp_path):
    options = ["--policy", "random", "--episodes", "2", "--save", "saved"]
    run("eval", openspiel_url, "--game", "catch", *options, cwd=tmp_path)

    other = run("eval", openspiel_url, "--game", "blackjack", *options, "--resume", cwd=tmp_path)
    without = run("eval", openspiel_url, "--resume", cwd=tmp_path)
    counted = run(
        "eval", openspiel_url, "--game", "catch", *options, "--resume", "--success-return", "0.5", cwd=tmp_path
    )
    endless = run("eval", openspiel_url, "--success-return", "nan", cwd=tmp_path)

    assert (other.returncode, without.returncode, counted.returncode, endless.returncode) == (1, 1, 1, 1)
    assert "have success_return=None, and this evaluation has 0.5" in counted.stderr
    assert "--success-return nan: give a finite number" in endless.stderr
    assert re.search(r"1-random.jsonl have reset=.*catch.*, and this evaluation has .*blackjack", other.stderr)
    assert "add --save DIR" in without.stderr


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--save", "file", "'--save': dir 'file' is a file"),
        ("--plot", "folder", "'--plot': file 'folder' is a directory"),
        ("--plot", "eval.docx", "--plot eval.docx: give a file that ends with .png, .svg, .pdf"),
        ("--plot", "eval", "--plot eval: give a file that ends with .png, .svg, .pdf"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_an_episode_is_played(tmp_path, option, value, message):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()

    refused = run("eval", "http://127.0.0.1:9", option, value, cwd=tmp_path)  # where no server answers

    assert refused.returncode != 0
    assert message in refused.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://", "ftp://localhost"])
def test_a_url_that_no_client_can_use_is_refused(url):
    refused = run("eval", url)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"openenv: base_url={url!r}: ")


def test_eval_plays_the_same_episodes_for_the_same_seed(openspiel_url, tmp_path):
    command = ["eval", openspiel_url, "--game", "blackjack", "--episodes", "40", "--seed", "3", "--json"]
    assert run(*command, cwd=tmp_path).stdout == run(*command, cwd=tmp_path).stdout


def test_an_evaluation_whose_episodes_all_fail_prints_the_reason(openspiel_url, tmp_path):
    done = run("eval", openspiel_url, "--game", "blackjak", "--episodes", "2", cwd=tmp_path)

    assert done.returncode == 1
    assert "Did you mean 'blackjack'" in done.stderr


@pytest.mark.finding("a lost server and Ctrl-C have a line at once, with how to go on")
def test_an_evaluation_that_fails_prints_the_episodes_that_have_ended(openspiel_url, tmp_path):
    command = [*OPENENV, "eval", openspiel_url, "--game", "catch", "--episodes", "20000", "--save", "episodes"]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 512 && exec "$@"', "bash", *command],  # KiB: the disk is full
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "With the same command, --resume goes on." in done.stderr
    stopped = re.search(r"stopped after (\d+) of 20000 episodes", done.stderr)
    assert stopped
    assert "episodes: episodes/1-random.jsonl" in done.stderr
    assert re.search(rf"random .* {stopped[1]} ", done.stdout)

    resumed = run("eval", *command[4:-3], "1000", "--save", "episodes", "--resume", cwd=tmp_path)
    assert re.search(r"random .* 1000 ", resumed.stdout)


@pytest.mark.finding("a lost server and Ctrl-C have a line at once, with how to go on")
def test_an_interrupted_evaluation_prints_the_episodes_that_have_ended(openspiel_url, tmp_path):
    long = ["--policy", "smart,random", "--episodes", "5000", "--save", "episodes"]
    process = subprocess.Popen(
        [*OPENENV, "--verbose", "eval", openspiel_url, "--game", "catch", *long],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while "finished policy=smart" not in process.stderr.readline():
        assert process.poll() is None
    second = tmp_path / "episodes" / "2-random.jsonl"
    while not second.exists() or second.stat().st_size < 20_000:  # some episodes of the second policy
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert process.returncode == 130
    stopped = re.search(r"stopped after (\d+) of 10000 episodes. With the same command, --resume goes on.", err)
    assert stopped
    saved = [sum(1 for _ in path.open(encoding="utf-8")) for path in sorted((tmp_path / "episodes").iterdir())]
    assert sum(saved) - len(saved) == int(stopped[1]) > 5000  # the first line of each file is no episode
    assert re.search(rf"smart .* 5000 .*random .* {int(stopped[1]) - 5000} ", out, re.DOTALL)
