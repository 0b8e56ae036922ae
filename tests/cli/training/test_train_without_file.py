"""`openenv train ENV --model PATH` needs no YAML, and refuses wrong arguments with the remedy."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from openenv.cli.main import app
from openenv.rl.config_file import load_config
from openenv.rl.run import config_without_file


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["train", *arguments], env={"COLUMNS": "1000", "TERM": "dumb"})
    assert result.exit_code == 2, result.output
    return result.output


@pytest.mark.finding("training needs no file, and printed commands run")
def test_init_writes_the_run_that_would_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["train", "guess", "--model", "some/model", "--steps", "7", "--init"])

    assert result.exit_code == 0, result.output
    assert "openenv train guess.yaml" in result.output
    config, usual = load_config("guess.yaml"), config_without_file("guess", "some/model")
    assert (config.trainer.training.steps, config.env, config.loss) == (7, usual.env, usual.loss)
    assert "exists" in refusal("guess", "--init")


def test_a_run_in_the_environment_of_a_file_is_named_after_its_class() -> None:
    assert config_without_file("games/guess.py:GuessEnvironment").name == "GuessEnvironment"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a YAML file or an environment"),
        (["nowhere.yaml"], "openenv train ENV --init nowhere.yaml"),
        (["gues"], "An environment is the name of a bundled"),
        (["lost.py:Env"], "there is no file lost.py"),
        (["guess", "--model", "./nowhere"], "there is no such folder"),
        (["guess", "--env", "echo"], "Leave --env out"),
        (["guess", "run.yaml"], "only for --init"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_remedy(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert message in " ".join(refusal(*arguments).replace("│", " ").split())
