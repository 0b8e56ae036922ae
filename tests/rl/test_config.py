import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from openenv.rl.config import Config, ConfigError
from openenv.rl.config_file import config_from_mapping, load_config

TRAINING = {"trainer": {"training": {"steps": 3}}}
EXAMPLE = Path(__file__).parents[2] / "examples" / "grpo_blackjack" / "blackjack.yaml"


def test_the_example_is_a_run_of_blackjack() -> None:
    config = load_config(EXAMPLE)

    assert config.env[0].reset == {"game_name": "blackjack"}
    assert config.evaluation.num_games >= 20_000


def test_a_file_that_is_no_yaml_is_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("env: guess\ntrainer: {training: {steps: 3}\n")

    with pytest.raises(ConfigError, match=r"run\.yaml is not YAML(?s:.*)line 3"):
        load_config(tmp_path / "run.yaml")


def test_a_key_that_is_written_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("trainer: {max_grad_norm: 1.0}\nenv: guess\ntrainer: {}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"run\.yaml: the key 'trainer' is written twice, in lines 1 and 3"):
        load_config(tmp_path / "run.yaml")


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"trainer\.optimizer\.learning: unknown key"):
        config_from_mapping({"trainer": {"optimizer": {"learning": 1.0}}})
    with pytest.raises(ConfigError, match=r"group_sizes: unknown key; did you mean group_size\?"):
        config_from_mapping({"group_sizes": 4})


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="group_size=1: a group of one has no mean to compare with"):
        config_from_mapping({"group_size": 1})


def test_a_value_of_a_wrong_kind_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"trainer\.training\.steps='many': must be of type int"):
        config_from_mapping({"trainer": {"training": {"steps": "many"}}})
    with pytest.raises(ConfigError, match=r"loss\.name='ppo': must be one of grpo"):
        config_from_mapping({"loss": {"name": "ppo"}})


def test_trackers_are_a_list_a_name_or_none() -> None:
    assert config_from_mapping({}).report_to == []
    assert config_from_mapping({"report_to": "none"}).report_to == []
    assert config_from_mapping({"report_to": "wandb"}).report_to == ["wandb"]
    assert config_from_mapping({"report_to": ["trackio", "tensorboard"]}).report_to == ["trackio", "tensorboard"]
    with pytest.raises(ConfigError, match=r"report_to\[1\]='mlflow': must be one of wandb, trackio, tensorboard"):
        config_from_mapping({"report_to": ["wandb", "mlflow"]})
    with pytest.raises(ConfigError, match="names a tracker twice"):
        config_from_mapping({"report_to": ["wandb", "wandb"]})


def test_numbers_without_a_dot_are_read_as_yaml_writers_mean_them(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("trainer: {optimizer: {lr: 3e-4}}\n")

    assert load_config(path).trainer.optimizer.lr == 3e-4


def test_the_tutorials_keys_are_understood() -> None:
    config = config_from_mapping(
        {"model": "some/model", "blackjack_env": {"server_url": "http://localhost:8004"}, "off_by_n": 2}
    )

    assert config.model.path == "some/model"
    assert config.env[0].server_url == "http://localhost:8004"
    assert config.env[0].reset == {}, "the server decides the game"
    assert config_from_mapping({"blackjack_env": {}}).env[0].reset == {"game_name": "blackjack"}
    assert config.max_policy_age == 2


@pytest.mark.parametrize(
    ("old", "new", "value"), [("reading", "pretrain", {"steps": 7}), ("rollout_threads", "groups_in_flight", 9)]
)
def test_a_former_key_is_accepted_with_a_warning_that_names_the_current_one(old: str, new: str, value: Any) -> None:
    with pytest.warns(FutureWarning, match=f"{old}: this key is now called {new}") as warned:
        config = config_from_mapping({old: value})

    assert warned[0].filename == __file__
    assert config == config_from_mapping({new: value})
    with pytest.raises(ConfigError, match=f"the former name of {new}, which is given too"):
        config_from_mapping({old: value, new: value})


@pytest.mark.parametrize(
    ("old", "current"),
    [
        ({"trainer": {"training": {"steps": 3, "max_minutes": 7}}}, {"max_minutes": 7, **TRAINING}),
        ({"replay_buffer": {"drop_equal_groups": True}}, {"replay_buffer": {"equal_groups": "redraw"}}),
        ({"replay_buffer": {"drop_equal_groups": False}}, {"replay_buffer": {"equal_groups": "keep"}}),
    ],
)
def test_a_former_key_inside_another_is_accepted_with_a_warning(old: dict[str, Any], current: dict[str, Any]) -> None:
    with pytest.warns(FutureWarning, match="this key is now called"):
        config = config_from_mapping(old)

    assert config == config_from_mapping(current)


def test_a_change_replaces_a_key_of_the_file_under_its_former_name_too(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("rollout_threads: 4\n")

    with pytest.warns(FutureWarning, match="rollout_threads") as warned:
        config = load_config(path, groups_in_flight=16)

    assert config.groups_in_flight == 16
    assert warned[0].filename == __file__


def test_every_field_has_a_sentence() -> None:
    folder = Path(__file__).parents[2] / "src" / "openenv" / "rl" / "config"
    lines = [line for module in sorted(folder.glob("*.py")) for line in _from_first_dataclass(module)]
    fields = [(line, after) for line, after in itertools.pairwise(lines) if _is_field(line)]

    assert len(fields) > 100
    assert [line for line, after in fields if not after.strip().startswith('"""')] == []


def _from_first_dataclass(module: Path) -> list[str]:
    return module.read_text().partition("@dataclass")[2].splitlines()


def _is_field(line: str) -> bool:
    return (
        line.startswith("    ")
        and line[4].isalpha()
        and ": " in line
        and " = " in line
        and "(" not in line.split(":")[0]
    )


def test_defaults_make_a_run() -> None:
    assert Config().max_policy_age == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sampling": {"partial_rollouts": True, "together": True}}, "sampling.together"),
        ({"sampling": {"partial_rollouts": True}, "off_by_n": 0}, "sampling.partial_rollouts"),
        ({"replay_buffer": {"age_of": "token"}}, "replay_buffer.age_of"),
        ({"sampling": {"partial_rollouts": True}, "env": {"name": "echo", "self_play": {}}}, "env.self_play"),
        (
            {"sampling": {"partial_rollouts": True}, "env": {"name": "echo", "curriculum": {"levels": [{}, {}]}}},
            "env.curriculum",
        ),
    ],
)
def test_partial_rollouts_are_refused_where_nothing_goes_on_across_an_update(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(named)):
        config_from_mapping(settings)


@pytest.mark.parametrize(("allowed", "age"), [(None, 2), (0, 0), (5, 2)])
def test_the_buffer_may_allow_less_than_off_by_n(allowed: int | None, age: int) -> None:
    assert config_from_mapping({"off_by_n": 2, "replay_buffer": {"max_policy_age": allowed}}).max_policy_age == age
