"""`openenv check` as a person runs it."""

import json
from pathlib import Path

import pytest

import openenv.envs
from openenv.core.env_server import ServerConfig, create_app
from openenv.evaluation.quality import check_folder
from tests.cli.test_commands import run
from tests.evaluation.sound_env import CountsNothing, SoundEnvironment

ENVIRONMENTS = Path(openenv.envs.__file__).parent


def test_its_help_shows_an_example():
    assert "openenv check my_env" in run("check", "--help").stdout.split("Example")[1]


@pytest.mark.parametrize("game", ["kuhn_poker", "tic_tac_toe", "blackjack", "catch"])
def test_bundled_games_fail_no_check(game, monkeypatch):
    monkeypatch.setenv("OPENSPIEL_GAME", game)
    found = {row.check: row.finding for row in check_folder(ENVIRONMENTS / "openspiel_env")}

    assert {check: finding.seen for check, finding in found.items() if finding.status not in ("pass", "warn")} == {}
    assert "equal byte for byte" in found["same seed, other process"].seen


def test_the_echo_fails_no_check_and_its_rows_can_be_had_as_json():
    done = run("check", f"{ENVIRONMENTS}/echo_env", "--json")
    told = json.loads(done.stdout)

    assert (done.returncode, told["ok"]) == (0, True), done.stderr
    status = {row["check"]: row["status"] for row in told["rows"]}
    assert (status["ending"], status["snapshots"], status["leaks"]) == ("warn", "skip", "pass")


def test_a_failed_check_is_exit_code_1_and_says_the_remedy(serving):
    done = run("check", serving(create_app(CountsNothing)), "--seconds", "20")

    assert done.returncode == 1
    assert "add 1 to step_count in step()" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_server_that_wants_a_token_is_checked_with_the_one_from_the_environment(serving, monkeypatch):
    url = serving(create_app(SoundEnvironment, config=ServerConfig(token="let me in")))
    refused = run("check", url, "--seconds", "20")
    monkeypatch.setenv("OPENENV_TOKEN", "let me in")
    passed = run("check", url, "--seconds", "20")

    assert (refused.returncode, passed.returncode) == (1, 0), passed.stdout
    assert "set OPENENV_TOKEN" in refused.stdout


APP = """
from openenv.core.env_server import ServerConfig, create_app
from tests.evaluation.sound_env import SoundEnvironment

{app}
"""
MAIN = """
def main():
    import argparse
    from openenv.core.env_server import serve

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
    done = run("check", str(folder), "--seconds", "30")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "16 pass" in done.stdout


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "has no openenv.yaml"),
        ({"openenv.yaml": "name: x"}, "has no server/app.py"),
        ({"openenv.yaml": "name: x", "server/app.py": "x = 1"}, "has neither `app` nor `main`"),
    ],
)
def test_a_folder_that_is_no_environment_is_said_in_a_line(tmp_path, files, words):
    (tmp_path / "server").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = run("check", str(tmp_path))

    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_does_not_start_fails_with_what_it_said(tmp_path):
    (tmp_path / "openenv.yaml").write_text("name: x\nserver: no_such_module\n")
    done = run("check", str(tmp_path))

    assert done.returncode == 1
    assert "no_such_module" in done.stdout
