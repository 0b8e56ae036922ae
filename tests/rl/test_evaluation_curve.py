"""Evaluation while a run trains: it changes nothing, its rows are reproducible, and the best checkpoint is kept."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from openenv.agents.llm.http import LLMError
from openenv.evaluation.intervals import EpisodeOutcome, EpisodeResult
from openenv.rl.algorithm.rewards import EpisodeReward, RandomReturns
from openenv.rl.config import Config, ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.engines.training_environment import TrainingEnvironment
from openenv.rl.evaluation.curve import EvaluationCurve, greedy_metrics, sampled_metrics, score_of
from openenv.rl.evaluation.games import play_games
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.language_model import copy_of, load_model
from openenv.rl.reports.best_checkpoint import BestCheckpoint, best_line
from openenv.rl.reports.results import StepLog, read_rows
from openenv.rl.training.checkpoint import Checkpoints
from tests.rl.echo_game import EchoPool, EchoText, SayAction, echo_config
from tests.rl.test_loop import SmallRun

pytestmark = pytest.mark.process

TIMINGS = {"wait_time", "step_time", "training_s"}
EVALUATION = {"interval": 2, "interval_games": 12, "pass_k": 3}


class EvaluatedRun(SmallRun):
    """A run on the echo game with its evaluation."""

    evaluation_pools: list[EchoPool]

    async def train(self, steps: int, **kwargs: Any) -> list[dict[str, Any]]:
        self.evaluation_pools = []
        return await self.run(steps, evaluate=self.curve(), **kwargs)

    def curve(self) -> EvaluationCurve:
        run_dir = self.metrics_path.parent

        def player() -> Generator:
            return Generator(copy_of(self.model), self.chat, max_new_tokens=self.config.max_res_tokens)

        def pool(_environment: int, num_sessions: int) -> Any:
            self.evaluation_pools.append(EchoPool(num_sessions, turns=1))
            return contextlib.nullcontext(self.evaluation_pools[-1])

        return EvaluationCurve(
            self.config,
            [environment_of(self)],
            player=player,
            pool=pool,
            executor=self.executor,
            best=BestCheckpoint.load(run_dir),
            save_best=lambda best: self.checkpoints.save_best(self.model, self.chat, best),
            recovering=self,
        )


def environment_of(run: SmallRun) -> TrainingEnvironment:
    return TrainingEnvironment(
        label="echo",
        config=run.config.env[0],
        served=cast(Any, SimpleNamespace(text=EchoText())),
        chat=run.chat,
        reward=EpisodeReward(),
        random_returns=RandomReturns(worst=-1.0, deviation=0.5),
        agent=None,
    )


def evaluated_config(**changes: Any) -> Config:
    return echo_config(**{"off_by_n": 1, "checkpoint": {"interval": 3}, "evaluation": EVALUATION, **changes})


def without(rows: Sequence[dict[str, Any]], prefixes: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows without timings, and without the metrics that begin with one of the prefixes."""
    return [{k: v for k, v in row.items() if k not in TIMINGS and not k.startswith(prefixes)} for row in rows]


async def test_a_run_has_the_same_metrics_and_weights_with_and_without_evaluations(tmp_path: Path) -> None:
    evaluated, plain = (EvaluatedRun(evaluated_config(), tmp_path / name) for name in ("a", "b"))

    rows, expected = await evaluated.train(5), await plain.run(5)

    assert without(rows, ("eval/",)) == without(expected, ())
    assert [row["step"] for row in rows if "eval/score" in row] == [2, 4, 5], "the last one is compared with the best"
    assert all(torch.equal(*pair) for pair in zip(evaluated.model.parameters(), plain.model.parameters(), strict=True))
    games = [pool.first_words for pool in evaluated.evaluation_pools]
    assert games[0] == games[1] == games[2]
    assert {len(words) for words in games[0].values()} == {1 + EVALUATION["pass_k"]}
    assert min(games[0]) == evaluated.config.evaluation.seed + evaluated.config.evaluation.num_games


async def test_a_run_that_is_killed_and_resumed_has_the_same_evaluations(tmp_path: Path) -> None:
    def on_step(row: dict[str, Any]) -> None:
        if row["step"] == 5:  # a checkpoint was saved after step 3, and an evaluation was made after step 4
            shutil.copytree(tmp_path / "a", tmp_path / "killed", symlinks=True)

    uninterrupted = await EvaluatedRun(evaluated_config(), tmp_path / "a").train(6, on_step=on_step)
    assert len(read_rows(tmp_path / "killed" / "metrics.jsonl")) == 5

    resumed = await EvaluatedRun(evaluated_config(), tmp_path / "killed", resume=True).train(3)

    assert without(resumed, ("eval/time",)) == without(uninterrupted, ("eval/time",))
    assert BestCheckpoint.load(tmp_path / "killed") == BestCheckpoint.load(tmp_path / "a")


async def test_the_best_checkpoint_has_the_weights_of_its_step(tmp_path: Path) -> None:
    weights: dict[int, list[torch.Tensor]] = {}
    run = EvaluatedRun(evaluated_config(evaluation={**EVALUATION, "interval": 1}), tmp_path)

    rows = await run.train(
        4, on_step=lambda row: weights.update({row["step"]: [w.detach().clone() for w in run.model.parameters()]})
    )

    scores = {row["step"]: row["eval/score"] for row in rows}
    best = BestCheckpoint.load(tmp_path)
    assert best is not None
    assert best.step == max(scores, key=lambda step: (scores[step], -step))
    model, _ = load_model(tmp_path / "checkpoints" / "best")
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), weights[best.step], strict=True))
    assert not (tmp_path / "checkpoints" / "best" / "trainer.pt").exists()


def test_a_better_checkpoint_replaces_the_one_before_and_what_a_killed_process_left(tmp_path: Path) -> None:
    run = SmallRun(echo_config(), tmp_path)
    checkpoints = Checkpoints(tmp_path)
    left = checkpoints.folder / "best_b"

    checkpoints.save_best(run.model, run.chat, BestCheckpoint(step=2, score=0.1, metrics={}))
    left.mkdir()
    (left / "half_written").touch()
    checkpoints.save_best(run.model, run.chat, BestCheckpoint(step=4, score=0.2, metrics={}))
    checkpoints.save_best(run.model, run.chat, BestCheckpoint(step=6, score=0.3, metrics={}))

    found = BestCheckpoint.load(tmp_path)
    assert found is not None
    assert found.step == 6
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["best", "best_a"]
    assert (checkpoints.folder / "best" / "model.safetensors").exists()


def test_a_link_to_a_folder_that_is_no_best_checkpoint_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run = SmallRun(echo_config(), tmp_path / "run")
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.folder.mkdir(parents=True)
    (checkpoints.folder / "best").symlink_to("../../other")

    checkpoints.save_best(run.model, run.chat, BestCheckpoint(step=2, score=0.1, metrics={}))

    assert other.is_dir()
    assert (checkpoints.folder / "best").readlink() == Path("best_a")


def games(*outcomes: EpisodeOutcome) -> list[EpisodeResult]:
    rewards = {"won": 1.0, "push": 0.0, "lost": -1.0, "unparseable": 0.5, "invalid": 0.0}
    return [
        EpisodeResult(seed=seed, total_reward=rewards[outcome], success_return=1.0, num_steps=1, outcome=outcome)
        for seed, outcome in enumerate(outcomes)
    ]


def test_the_metrics_of_sampled_games_are_means_over_the_seeds() -> None:
    row = sampled_metrics([games("won", "lost", "lost"), games("won", "won", "unparseable"), games("invalid") * 3], 2)

    assert row["sampled/win_rate"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert row["sampled/return"] == pytest.approx((-1 / 3 + 1.0) / 2)
    assert row["sampled/unparseable_ratio"] == pytest.approx(1 / 6)
    assert row["pass@2"] == pytest.approx((2 / 3 + 1.0) / 2)  # two of three: 1 - C(2, 2) / C(3, 2), and 1 - 0
    low, high = row["pass@2_interval"]
    assert 0 < low < row["pass@2"] < high <= 1


def test_what_is_not_known_is_none_in_the_metrics() -> None:
    row = {**greedy_metrics(games("invalid")), **sampled_metrics([games("invalid")], 1)}

    assert {key for key, value in row.items() if value is not None} == {
        "greedy/win_rate_interval",
        "sampled/win_rate_interval",
        "pass@1_interval",
    }
    json.dumps(row, allow_nan=False)


def test_the_score_counts_a_game_without_a_legal_action_as_the_worst_of_random_play() -> None:
    measured = RandomReturns(worst=-2.0, deviation=0.5)

    assert score_of(games("won", "unparseable", "invalid"), measured) == -1.0
    assert score_of(games("won", "lost"), RandomReturns(worst=0.0, deviation=0.0)) == 0.0
    assert score_of(games("invalid"), measured) is None


def test_the_best_checkpoint_is_named_only_if_it_is_better_than_the_last(tmp_path: Path) -> None:
    greedy = {"eval/greedy/return": 0.25, "eval/greedy/win_rate": 0.5}
    worse = {"eval/greedy/return": -0.25, "eval/greedy/win_rate": None}
    log = StepLog(tmp_path / "metrics.jsonl")
    log.append({"step": 2, "eval/score": 0.5, **greedy})
    assert best_line(tmp_path) is None
    folder = tmp_path / "checkpoints" / "best"
    folder.mkdir(parents=True)
    BestCheckpoint(step=2, score=0.5, metrics=greedy).save(folder)
    assert best_line(tmp_path) is None

    log.append({"step": 4, "eval/score": -0.5, **worse}, {"step": 5})

    assert best_line(tmp_path) == (
        f"best checkpoint: step 2 (return +0.2500, win rate 50.00%; step 4: return -0.2500), kept in {folder}"
    )


def test_a_pretrained_model_is_evaluated_while_it_trains_and_the_tiny_one_is_not() -> None:
    assert config_from_mapping({"model": {"path": "x"}}).evaluation.interval == 20
    assert config_from_mapping({}).evaluation.interval == 0
    with pytest.raises(ConfigError, match=r"evaluation\.pass_k=0"):
        config_from_mapping({"evaluation": {"pass_k": 0}})


async def test_a_step_is_recorded_also_if_its_evaluation_is_cancelled(tmp_path: Path) -> None:
    run, began = SmallRun(echo_config(), tmp_path), asyncio.Event()

    async def evaluate(step: int, is_last: bool) -> dict[str, Any]:
        if step == 2:
            began.set()
            await asyncio.Event().wait()
        return {}

    training = asyncio.ensure_future(run.run(6, evaluate=evaluate))
    await began.wait()
    training.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await training

    assert [row["step"] for row in read_rows(run.metrics_path)] == [1, 2]
    assert run.checkpoints.latest_step == 2


class EndingPolicy:
    """Repeats the word that it sees, until it has chosen some times: then it fails until its generator is started."""

    name = "ending"

    def __init__(self, run: SmallRun, ends: list[int]) -> None:
        """ends: after how many more choices it fails, each time."""
        self._run, self._ends, self._left = run, ends, ends.pop(0)
        self._recoveries = 0
        run.has_ended = lambda: self._left == 0

    def select_action(self, observation: Any) -> SayAction:
        if self._run.num_recoveries > self._recoveries:
            self._recoveries, self._left = self._run.num_recoveries, self._ends.pop(0) if self._ends else 1000
        if self._left == 0:
            raise LLMError("the generator cannot be reached")
        self._left -= 1
        return SayAction(word=observation.word)


async def games_of(run: SmallRun, ends: list[int], pool: EchoPool | None = None) -> list[EpisodeResult]:
    """Forty games of an `EndingPolicy`."""
    return await play_games(
        pool or EchoPool(8, turns=1), EndingPolicy(run, ends), 40, 7,
        config=run.config, environment=environment_of(run), recovering=run,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "can_restart", "recoveries", "won"),
    [
        ([30], True, 1, 40),
        ([0], True, 1, 40),  # every game fails from the start
        ([5, 0, 0], True, 2, 5),  # the last end is not recovered from
        ([0, 30, 0], True, 2, 30),
        ([30], False, 0, 30),
    ],
)
async def test_the_games_of_a_generator_that_has_ended_are_played_again(
    tmp_path: Path, ends: list[int], can_restart: bool, recoveries: int, won: int
) -> None:
    run = SmallRun(echo_config(), tmp_path)
    run.can_restart = can_restart

    games = await games_of(run, ends)

    assert [game.seed for game in games] == list(range(7, 47))
    assert sum(game.outcome != "invalid" and game.total_reward == 1 for game in games) == won
    assert sum(game.outcome == "invalid" for game in games) == 40 - won
    assert run.num_recoveries == recoveries


async def test_a_game_that_its_environment_has_lost_is_not_played_again(tmp_path: Path) -> None:
    run, pool = SmallRun(echo_config(), tmp_path), EchoPool(8, turns=1, broken_seeds=frozenset({9}))

    games = await games_of(run, [0], pool)

    assert [game.seed for game in games if game.outcome == "invalid"] == [9]
    assert len(pool.first_words[9]) == 2  # before and after the generator was started
    assert run.num_recoveries == 1


async def test_a_generator_that_has_ended_for_good_ends_an_evaluation_that_cannot_begin(tmp_path: Path) -> None:
    run = SmallRun(echo_config(), tmp_path)

    with pytest.raises(LLMError, match="the generator cannot be reached"):
        await games_of(run, [0, 0, 0])
    assert run.num_recoveries == 2
