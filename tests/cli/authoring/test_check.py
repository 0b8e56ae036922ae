"""`openenv check` checks an environment or a folder."""

import json
from pathlib import Path

import pytest

import openenv.envs
from openenv.core.env_server import ServerConfig, create_app
from openenv.evaluation.quality import check_environment
from tests.cli.commands import run, run_process
from tests.evaluation.quality import sound_env
from tests.evaluation.quality.sound_env import CountsNothing, SoundEnvironment

pytestmark = pytest.mark.process

ENVIRONMENTS = Path(openenv.envs.__file__).parent


def test_its_help_shows_an_example():
    assert "openenv check my_env" in run("check", "--help").stdout.split("Example")[1]


@pytest.mark.parametrize("game", ["kuhn_poker", "tic_tac_toe", "blackjack", "catch"])
def test_bundled_games_fail_no_check(game, monkeypatch):
    monkeypatch.setenv("OPENSPIEL_GAME", game)
    found = {row.check: row.result for row in check_environment(str(ENVIRONMENTS / "openspiel_env"))}

    assert {check: finding.seen for check, finding in found.items() if finding.status not in ("pass", "warn")} == {}
    assert "equal byte for byte" in found["same seed, other process"].seen


@pytest.mark.parametrize("name", ["guess", "gymnasium", "maze"])
def test_other_bundled_environments_fail_no_check(name):
    status = {row.check: row.result.status for row in check_environment(name)}

    assert set(status.values()) <= {"pass", "warn"}, status
    assert status["snapshots"] == "pass"


def test_the_echo_environment_fails_no_check_and_json_has_its_rows():
    done = run("check", f"{ENVIRONMENTS}/echo_env", "--json")
    printed = json.loads(done.stdout)

    assert (done.returncode, printed["ok"]) == (0, True), done.stderr
    status = {row["check"]: row["status"] for row in printed["rows"]}
    assert (status["ending"], status["snapshots"], status["leaks"]) == ("warn", "skip", "pass")


def test_every_reset_has_the_keywords_that_are_given():
    needs_level = f"{sound_env.__file__}:NeedsLevel"
    printed = json.loads(run("check", needs_level, "--reset", "level=2", "--json").stdout)
    status = {row["check"]: row["status"] for row in printed["rows"]}

    assert status["same seed, other process"] == status["concurrency"] == status["rewards"] == "pass", printed
    assert set(status.values()) <= {"pass", "warn"}
    assert run("check", needs_level, "--seconds", "20").returncode == 1


def test_a_failed_check_prints_the_remedy_and_exits_with_code_1(serving):
    done = run("check", serving(create_app(CountsNothing)), "--seconds", "20")

    assert done.returncode == 1
    assert "add 1 to step_count in step()" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_token_of_the_environment_variable_is_sent(serving, monkeypatch):
    url = serving(create_app(SoundEnvironment, config=ServerConfig(token="let me in")))
    refused = run("check", url, "--seconds", "20")
    monkeypatch.setenv("OPENENV_TOKEN", "let me in")
    passed = run("check", url, "--seconds", "20")

    assert (refused.returncode, passed.returncode) == (1, 0), passed.stdout
    assert "set OPENENV_TOKEN" in refused.stdout


APP = """
from openenv.core.env_server import ServerConfig, create_app
from tests.evaluation.quality import sound_env
from tests.evaluation.quality.sound_env import SoundEnvironment

{app}
"""
MAIN = """
def main():
    import argparse
    from openenv import serve

    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    args = parser.parse_args()
    serve(create_app(SoundEnvironment), args.host, args.port)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("app", ["app = create_app(SoundEnvironment)", MAIN], ids=["app", "main"])
def test_an_authors_folder_is_served_by_its_app_or_its_main(tmp_path, app):
    folder = tmp_path / "my_env"
    (folder / "server").mkdir(parents=True)
    (folder / "openenv.yaml").write_text("spec_version: 1\nname: my_env\napp: server.app:app\n")
    (folder / "server" / "app.py").write_text(APP.format(app=app))
    done = run_process("check", str(folder), "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    status = {row["check"]: row["status"] for row in json.loads(done.stdout)["rows"]}
    assert status["same seed, other process"] == "pass", "only a folder can be served twice"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "has no openenv.yaml"),
        ({"openenv.yaml": "name: x"}, "has no server/app.py"),
        ({"openenv.yaml": "name: x", "server/app.py": "x = 1"}, "has neither `app` nor `main`"),
    ],
)
def test_a_folder_that_is_no_environment_ends_with_one_line(tmp_path, files, words):
    (tmp_path / "server").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = run("check", str(tmp_path))

    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_does_not_start_fails_with_its_output(tmp_path):
    (tmp_path / "openenv.yaml").write_text("name: x\nserver: no_such_module\n")
    done = run("check", str(tmp_path))

    assert done.returncode == 1
    assert "no_such_module" in done.stdout
