"""The YAML that `--init` writes gives the same run when it is loaded."""

from pathlib import Path

import pytest

from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping, load_config, require_model
from openenv.rl.planning.config_text import config_yaml
from openenv.rl.run import config_without_file, with_game

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/*.yaml"))


def loaded(config: Config, folder: Path) -> Config:
    (folder / "run.yaml").write_text(config_yaml(config), encoding="utf-8")
    return load_config(folder / "run.yaml")


@pytest.mark.parametrize("model", ["", "models/smollm2-135m"])
def test_a_run_without_a_file_is_the_same_in_its_file(model: str, tmp_path: Path) -> None:
    config = with_game(config_without_file("openspiel", model), "catch")

    assert loaded(config, tmp_path) == config


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_the_same_in_another_file(example: Path, tmp_path: Path) -> None:
    assert loaded(load_config(example), tmp_path) == load_config(example)


def test_an_adapter_with_its_defaults_is_written(tmp_path: Path) -> None:
    config = config_from_mapping({"model": {"path": "a/b", "lora": {}}, "trainer": {"optimizer": {"lr": 1e-3}}})

    assert loaded(config, tmp_path) == config


def test_keys_have_the_first_sentence_of_their_docstrings() -> None:
    lines = config_yaml(config_without_file("guess", "some/model")).splitlines()

    assert "    # Peak learning rate" in lines
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("path", ["", "organisation/model", "gpt2", str(Path(__file__).parent)])
def test_a_folder_and_a_name_like_a_hub_id_may_be_models(path: str) -> None:
    require_model(path)


@pytest.mark.parametrize(
    "path", ["./nowhere", "/no/such/folder", "lost.gguf", "a/b/c", __file__, "models/x", "~/x", "src/nowhere"]
)
def test_any_other_model_is_refused_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])

    with pytest.raises(ValueError, match=r"model\.path=.* there is no such folder"):
        require_model(path)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("models/smollm2-135n", "models/smollm2-135m"),
        ("./smollm2-135m", "models/smollm2-135m"),
        ("other/qwen3.gguff", "other/qwen3.gguf"),
        ("~/own", "HOME/own"),
    ],
)
@pytest.mark.finding("what is not there or not read is an error with the next step")
def test_a_model_that_is_not_there_is_refused_with_the_one_that_is(
    path: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("models/smollm2-135m", "other", "home/own"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "other/qwen3.gguf").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    with pytest.raises(ValueError, match=rf"Did you mean {meant.replace('HOME', str(tmp_path / 'home'))}\?"):
        require_model(path)


def test_a_file_for_the_tiny_model_keeps_what_suits_any(caplog: pytest.LogCaptureFixture) -> None:
    example = next(path for path in EXAMPLES if path.name == "blackjack.yaml")
    config, tiny = load_config(example, model_path="some/model"), load_config(example)

    assert (config.env, config.reward, config.name) == (tiny.env, tiny.reward, tiny.name)
    assert config.model.instructions
    assert (config.trainer.optimizer.lr, config.max_res_tokens) == (1e-5, 64)
    assert "group_size, groups_in_flight" in caplog.text


def test_a_file_for_a_pretrained_model_keeps_all_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("model: {path: one/model, instructions: false}\ngroup_size: 4\n")

    config = load_config(tmp_path / "run.yaml", model_path="other/model")

    assert (config.model.path, config.model.instructions, config.group_size) == ("other/model", False, 4)
