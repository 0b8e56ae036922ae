"""Mixtures of environments and curricula: which plays a group, at which level, and what a run reports of it."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openenv.auto.environment import ServedEnvironment
from openenv.rl.algorithm.curricula import Curricula, environment_of
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import Config, ConfigError, EnvConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.environments import labels, session_pool
from openenv.rl.reports.results import load_results, read_rows
from openenv.rl.run import run, with_game
from openenv.rl.setup import setup_training
from tests.rl.test_setup import TINY

LEVELS: list[dict[str, Any]] = [{"size": 1}, {"size": 2}, {"size": 3}]


def configured(env: Any) -> Config:
    return config_from_mapping({"env": env})


def episodes(successes: int, failures: int, environment: int = 0, outcome: str = "lost") -> Group:
    won = [Trajectory(seed=0, outcome="won", success_return=1.0) for _ in range(successes)]
    lost: list[Any] = [Trajectory(seed=0, outcome=outcome, success_return=1.0) for _ in range(failures)]  # type: ignore[arg-type]
    return Group(0, won + lost, environment)


def curriculum(**settings: Any) -> dict[str, Any]:
    return {"levels": LEVELS, "episodes": 10, **settings}


def test_an_environment_is_one_of_a_list() -> None:
    assert [env.name for env in configured("echo").env] == ["echo"]
    assert [env.name for env in configured(["echo", {"name": "guess", "weight": 2}]).env] == ["echo", "guess"]
    assert configured([{"server_url": "http://localhost:1"}]).env[0].name == "http://localhost:1"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ([], "must have an environment"),
        ({"name": "echo", "weight": 0}, r"env\.weight=0"),
        ({"name": "echo", "success_return": float("nan")}, r"env\.success_return=nan"),
        ([{"name": "echo"}, {"nam": "guess"}], r"env\[1\]\.nam: unknown key"),
        ({"name": "echo", "curriculum": {"levels": [{}]}}, "two levels or more"),
        ({"name": "echo", "curriculum": {"levels": [{}, {}], "lower_at": 0.9}}, "lower_at below raise_at"),
    ],
)
def test_a_wrong_mixture_is_an_error_that_names_the_key(env: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configured(env)


def test_any_run_of_groups_has_the_environments_in_their_shares() -> None:
    configs = [EnvConfig(name="a", weight=3), EnvConfig(name="b", weight=1), EnvConfig(name="c", weight=1)]

    for start in (0, 17, 1_000_000):
        counts = Counter(environment_of(index, configs) for index in range(start, start + 200))
        assert [counts[number] for number in range(3)] == pytest.approx([120, 40, 40], abs=3)


def test_each_environment_has_a_name_of_its_own() -> None:
    games = [{"name": "openspiel", "reset": {"game_name": game}} for game in ("catch", "catch", "chess")]

    assert labels(configured([*games, "echo"]).env) == ["catch 1", "catch 2", "chess", "echo"]


def test_an_environment_is_named_after_the_game_that_its_own_keyword_chooses() -> None:
    env = [{"name": "gymnasium", "reset": {"env_id": "Taxi-v4"}}, {"name": "cards", "reset": {"game": "uno"}}, "snake"]

    assert labels(configured(env).env) == ["Taxi-v4", "uno", "snake"]


def test_a_level_is_left_when_enough_episodes_succeed_or_fail() -> None:
    curricula = Curricula(configured({"name": "echo", "reset": {"a": 1}, "curriculum": curriculum()}).env)
    sizes = [curricula.keywords(0)]
    for group in (
        episodes(8, 1),  # not enough episodes
        episodes(1, 0),  # 9 of 10
        episodes(5, 5),  # neither: counted anew
        episodes(10, 0),
        episodes(10, 0),  # the last level
        episodes(2, 8),
    ):
        curricula.add([group])
        sizes.append(curricula.keywords(0))

    assert sizes == [{"a": 1, "size": size} for size in (1, 1, 2, 2, 3, 3, 2)]


def test_an_unparseable_reply_is_no_success() -> None:
    curricula = Curricula(configured({"name": "echo", "curriculum": curriculum()}).env)
    curricula.add([episodes(5, 5, outcome="unparseable")])

    assert curricula.state == [[0, 0, 0]]


def test_a_curriculum_needs_to_know_what_a_success_is() -> None:
    curricula = Curricula(configured({"name": "echo", "curriculum": curriculum()}).env)

    with pytest.raises(ConfigError, match=r"env\.success_return=None: echo declares no success"):
        curricula.add([Group(0, [Trajectory(seed=0, outcome="ended")])])


def test_levels_are_those_of_their_own_environment_and_can_be_restored() -> None:
    env = configured([{"name": "echo", "curriculum": curriculum()}, {"name": "echo", "curriculum": curriculum()}]).env
    curricula = Curricula(env)
    curricula.add([episodes(10, 0, environment=1), episodes(3, 0, environment=0)])

    restored = Curricula(env, curricula.state)

    assert curricula.state == restored.state == [[0, 3, 3], [1, 0, 0]]
    assert [restored.keywords(number) for number in (0, 1)] == LEVELS[:2]


def mixture(folder: Path, **changes: Any) -> Config:
    levels = [{"game_params": {"rows": rows}} for rows in (3, 5)]
    env = [
        {"name": "openspiel", "reset": {"game_name": "blackjack"}, "weight": 2},
        {
            "name": "openspiel",
            "reset": {"game_name": "catch"},
            "curriculum": {"levels": levels, "episodes": 4, "raise_at": 0.1, "lower_at": 0.0},
        },
    ]
    return config_from_mapping({**TINY, "env": env, "checkpoint": {"folder": str(folder)}, **changes})


@pytest.mark.process
async def test_a_run_trains_and_compares_in_each_environment(tmp_path: Path) -> None:
    pretrain = {**TINY["pretrain"], "steps": 200}  # it knows the commands, and catches now and then
    evaluation = {**TINY["evaluation"], "interval": 2, "interval_games": 8, "pass_k": 2}
    changes = {"replay_buffer": {"batch_size": 9}, "pretrain": pretrain, "evaluation": evaluation}
    result = await run(mixture(tmp_path, **changes))

    rows = read_rows(result.run_dir / "metrics.jsonl")
    assert all(row["num_episodes"] == 36 and row["num_groups/trained"] == 9 for row in rows)
    assert all(row[f"reward/{label}"] is not None for row in rows for label in ("blackjack", "catch"))
    assert max(row["level/catch"] for row in rows) == 1
    assert all(
        f"eval/{label}/{key}" in rows[1] for label in ("blackjack", "catch") for key in ("pass@2", "greedy/return")
    )
    assert [row["step"] for row in rows if row.get("eval/score") is not None] == [2, 3]
    names = [row.name for row in load_results(result.run_dir)]
    players = ["random", "before GRPO (sampled)", "after GRPO (greedy)"]
    assert set(names) >= {f"{label}: {player}" for label in ("blackjack", "catch") for player in players}
    assert "blackjack: optimum" in names


@pytest.mark.process
async def test_a_resumed_run_continues_at_its_levels(tmp_path: Path) -> None:
    training = await setup_training(mixture(tmp_path))
    await training.run(2)
    levels = training.engine.progress.levels
    await training.shutdown()

    resumed = await setup_training(mixture(tmp_path), resume=True)
    await resumed.shutdown()

    assert levels
    assert resumed.engine.progress.levels == levels


def test_a_game_replaces_that_of_one_environment_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="several environments"):
        with_game(mixture(tmp_path), "chess")


def test_a_game_is_set_by_the_keyword_of_its_environment() -> None:
    cards = configured({"name": "cards", "reset": {"game": "uno", "opponent_policy": "rule"}})

    assert with_game(cards, "gin-rummy").env[0].reset == {"game": "gin-rummy", "opponent_policy": "rule"}


def test_a_game_of_an_environment_without_games_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"snake chooses no game by name\. Set env\.reset in the file"):
        with_game(configured("snake"), "chess")


def test_a_run_waits_longer_for_a_connection_than_a_client_does() -> None:
    """Beside a model and the programs of agents, ten seconds pass before both sides had their turn."""
    asked = list[dict[str, Any]]()

    def client(**keywords: Any) -> None:
        asked.append(keywords)

    session_pool(cast("ServedEnvironment", SimpleNamespace(client=client, base_urls=["http://a", "http://b"])), 3)

    assert [one["base_url"] for one in asked] == ["http://a", "http://b", "http://a"]
    assert {one["connect_timeout_s"] for one in asked} == {60.0}
