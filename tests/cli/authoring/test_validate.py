"""`openenv validate` runs the checks of `openenv check` with the arguments and exit codes of the published command."""

import json
import threading

import pytest

from openenv.core.env_server import create_app
from openenv.evaluation.quality import CHECKS
from tests.cli.commands import run, run_process
from tests.evaluation.quality.sound_env import CountsNothing, SoundEnvironment

pytestmark = pytest.mark.process

RUNTIME = ["reachable", "actions", "verbs", "schema", "ending", "errors"]


def test_its_help_shows_an_example():
    assert "openenv validate --url" in run("validate", "--help").stdout.split("Example")[1]


def test_the_current_folder_is_checked_as_check_checks_it(tmp_path):
    run("init", "tide_env", "-o", str(tmp_path))
    done = run("validate", "--local", "--skip-build", "--json", cwd=tmp_path / "tide_env")
    printed = json.loads(done.stdout)

    assert (done.returncode, printed["ok"]) == (0, True), done.stderr
    assert [row["check"] for row in printed["rows"]] == [check.name for check in CHECKS]


@pytest.mark.parametrize("named", [["--url"], []], ids=["option", "argument"])
def test_a_server_is_checked_up_to_a_level_and_the_report_is_written(named, serving, tmp_path):
    url, output = serving(create_app(SoundEnvironment)), tmp_path / "report.json"
    done = run("validate", *named, url, "--level", "runtime", "--output", str(output), "--json")

    assert done.returncode == 0, done.stderr
    assert [row["check"] for row in json.loads(done.stdout)["rows"]] == RUNTIME
    assert json.loads(output.read_text()) == json.loads(done.stdout)


def test_a_failed_check_ends_with_code_1(serving):
    done = run("validate", serving(create_app(CountsNothing)), "--level", "runtime")

    assert done.returncode == 1
    assert "add 1 to step_count in step()" in done.stdout


class WaitsToStep(SoundEnvironment):
    """A step that ends after the checks."""

    checks_are_done = threading.Event()

    def step(self, action, **kwargs):
        self.checks_are_done.wait(60)
        return super().step(action, **kwargs)


def test_a_response_later_than_the_timeout_fails_its_check(serving):
    done = run("validate", serving(create_app(WaitsToStep)), "--level", "runtime", "--timeout", "0.2", "--json")
    WaitsToStep.checks_are_done.set()

    rows = {row["check"]: row for row in json.loads(done.stdout)["rows"]}
    assert done.returncode == 1
    assert (rows["reachable"]["status"], rows["actions"]["status"]) == ("pass", "fail")
    assert " 0.2 s" in rows["actions"]["seen"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 2, ". has no openenv.yaml: give an environment's folder, or the URL of a server"),
        (["./nowhere"], 2, "nowhere has no openenv.yaml"),
        (["--level", "deep"], 3, "--level deep: give one of static, runtime, semantic"),
        (["--policy", "v9"], 3, "--policy v9: give one of v1, v2"),
        (["--output", "none/report.json"], 3, "there is no folder none"),
        (["./here", "--url", "http://127.0.0.1:9"], 1, "give one of them"),
        (["http://127.0.0.1:8", "--url", "http://127.0.0.1:9"], 1, "give one of them"),
        (["--local", "--url", "http://127.0.0.1:9"], 1, "give one of them"),
        (["--timeout", "0"], 2, "--timeout"),
    ],
)
def test_what_cannot_be_checked_ends_with_the_published_exit_code(args, code, words, tmp_path):
    done = run("validate", *args, cwd=tmp_path)

    assert done.returncode == code
    assert words in done.stderr


@pytest.mark.parametrize(
    ("manifest", "code", "seen"),
    [
        ("name: tide_env\n", 0, "tide_env.server.app serves tide_env"),
        ("port: 8000\n", 1, "openenv.yaml has no `name`"),
        ("name: tide_env\napp: server.missing:app\n", 1, "has no server/missing.py"),
    ],
)
def test_the_manifest_is_checked_without_a_server(manifest, code, seen, tmp_path):
    run("init", "tide_env", "-o", str(tmp_path))
    (tmp_path / "tide_env/openenv.yaml").write_text(manifest)
    (tmp_path / "tide_env/models.py").write_text("raise AssertionError('a static check imports nothing')")
    done = run("validate", "--level", "static", "--policy", "v1", "--json", cwd=tmp_path / "tide_env")

    assert done.returncode == code, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["check"], seen in row["seen"]) == ("manifest", True), row


def test_a_folder_without_an_environment_ends_with_code_2_in_a_process_of_its_own(tmp_path):
    assert run_process("validate", f"{tmp_path}/").returncode == 2
