"""The two loops: learning, resuming, stopping; without a server."""

import asyncio
import contextlib
import dataclasses
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from transformers import PreTrainedModel

from openenv.agents.llm.http import LLMError
from openenv.core.errors import EnvironmentFault, SessionGone
from openenv.rl.algorithm.learning_signal import NothingToLearn
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.budget import Budget
from openenv.rl.config import Config, PretrainConfig
from openenv.rl.engines.trainer import EmbeddedTrainer
from openenv.rl.generators.embedded import Generator
from openenv.rl.loop import NothingPlayed, TrainingLoop
from openenv.rl.models.devices import choose_algorithms
from openenv.rl.models.language_model import tiny_model
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.results import read_rows
from openenv.rl.reports.training_log import TrainingLog
from openenv.rl.rollouts.rollout import Rollout, group_seed
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.pretraining import pretrain
from openenv.rl.training.trainer import ReferenceModel, Trainer
from openenv.rl.training.trainer_rank import TrainerRank
from openenv.rl.waiting.waits import Waits
from openenv.rl.waiting.watch import Part
from tests.rl.echo_game import WORDS, EchoPool, EchoText, echo_chat, echo_config
from tests.rl.models.small_models import DEVICES

pytestmark = pytest.mark.process

NAMES_OF_TRL = {
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "completions/mean_length",
    "completions/min_length",
    "completions/max_length",
    "completions/clipped_ratio",
    "completions/mean_terminated_length",
    "completions/min_terminated_length",
    "completions/max_terminated_length",
    "grad_norm",
    "learning_rate",
    "loss",
    "kl",
    "entropy",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "clip_ratio/region_mean",
    "step_time",
    "num_tokens",
}


class SmallRun:
    """All parts of a run on the echo game."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        resume: bool = False,
        pool_class: type[EchoPool] = EchoPool,
        device: str = "cpu",
    ) -> None:
        self.pool_class, self.device = pool_class, torch.device(device)
        torch.set_num_threads(1)
        choose_algorithms(self.device, deterministic=True)
        self.config = config
        self.chat = echo_chat()
        self.model = self.new_model(config.seed)
        self.reference = ReferenceModel(self.model, "float32")
        self.in_thread = Trainer(self.model, self.reference, config, self.chat.pad_id)
        self.checkpoints = Checkpoints(folder)
        self.metrics_path = folder / "metrics.jsonl"
        start = TrainingProgress(step=0, training_s=0.0)
        self.progress = self.checkpoints.restore(self.in_thread) if resume else start
        self.executor = ThreadPoolExecutor(1)
        self.budget = Budget(config.max_minutes)
        self.publish_to(WeightStore())
        self.batch_size = config.replay_buffer.batch_size or 4
        self.can_restart, self.num_recoveries, self.num_server_ends = True, 0, 0
        self.waits = Waits()
        self.has_ended: Callable[[], bool] = lambda: True

    def publish_to(self, store: WeightStore) -> None:
        self.store = store
        self.trainer = EmbeddedTrainer(TrainerRank(self.in_thread, self.checkpoints, self.chat), store)

    def new_model(self, seed: int) -> PreTrainedModel:
        return tiny_model(self.config.model, self.chat.tokenizer, max_length=64, seed=seed, device=self.device)

    def teach_form(self) -> None:
        """Teach the model to say one of the words."""
        transcripts = Counter(
            {((("user", f"word {seen}"), ("assistant", reply)), "won"): 1 for seen in WORDS for reply in WORDS}
        )
        settings = PretrainConfig(steps=60, batch_size=64)
        pretrain(
            self.model,
            self.chat,
            transcripts,
            settings,
            precision="float32",
            seed=0,
            max_length=64,
            tokens_per_forward=512,
        )

    async def run(
        self, steps: int, on_step: Any = None, evaluate: Any = None, *, turns: int = 1
    ) -> list[dict[str, Any]]:
        self.budget = Budget(self.config.max_minutes)
        self.publish_to(WeightStore())
        await self.trainer.publish()
        self.pools: list[EchoPool] = [self.pool_class(8, turns=turns) for _ in range(2)]
        training_log = TrainingLog(self.metrics_path.parent, self.config, first_step=self.progress.step)
        await TrainingLoop(self, training_log).run(steps, on_step, evaluate)
        return read_rows(self.metrics_path)

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[list[list[Rollout]]]:
        config, reward = self.config, EpisodeReward(self.config.reward)
        generator = Generator(self.new_model(9), self.chat, max_new_tokens=config.max_res_tokens, store=self.store)
        yield [[Rollout(pool, EchoText(), generator, reward, config, self.executor) for pool in self.pools]]

    def parts(self) -> list[Part]:
        return []

    def pin(self, version: int) -> None:
        self.store.pin(version)

    async def recovered(self, known: int) -> bool:
        self.num_recoveries += self.can_restart and self.has_ended()
        return self.num_recoveries > known


async def test_the_model_learns_to_say_what_it_sees(tmp_path: Path) -> None:
    config = echo_config(
        group_size=8,
        groups_in_flight=8,
        replay_buffer={"batch_size": 16},
        trainer={"training": {"steps": 70}, "optimizer": {"lr": 3e-3, "warmup_steps": 1}},
    )

    rows = await SmallRun(config, tmp_path).run(70)

    assert rows[-1]["return"] > 0.9
    assert set(rows[-1]) >= NAMES_OF_TRL
    assert [row["step"] for row in rows] == list(range(1, 71))


async def test_no_episode_is_older_than_max_policy_age(tmp_path: Path) -> None:
    rows = await SmallRun(echo_config(off_by_n=1), tmp_path).run(6)

    assert max(row["off_policy/max_age"] for row in rows) <= 1
    assert all(row["buffer/evicted"] == 0 for row in rows)


async def test_strictly_on_policy_the_generator_agrees_with_the_trainer(tmp_path: Path) -> None:
    rows = await SmallRun(echo_config(off_by_n=0), tmp_path).run(4)

    assert all(row["off_policy/max_age"] == 0 for row in rows)
    assert all(abs(row["mismatch_kl"]) < 1e-6 for row in rows)


CURVE = ("step", "reward", "return", "kl", "entropy", "grad_norm", "learning_rate", "num_tokens")


def curve(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[pytest.approx(row[key], rel=1e-6, abs=1e-9) for key in CURVE] for row in rows]


async def test_a_resumed_run_continues_the_same_curve(tmp_path: Path) -> None:
    config = echo_config(off_by_n=0)
    uninterrupted = await SmallRun(config, tmp_path / "a").run(6)
    await SmallRun(config, tmp_path / "b").run(3)

    resumed = await SmallRun(config, tmp_path / "b", resume=True).run(3)

    assert [[row[key] for key in CURVE] for row in resumed] == curve(uninterrupted)


async def test_cancelling_keeps_what_was_made(tmp_path: Path) -> None:
    run = SmallRun(echo_config(), tmp_path)
    two_steps = asyncio.Event()
    training = asyncio.ensure_future(run.run(1000, lambda row: two_steps.set() if row["step"] == 2 else None))
    await two_steps.wait()

    training.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await training

    rows = read_rows(run.metrics_path)
    restored = SmallRun(echo_config(), tmp_path, resume=True)
    assert restored.progress.step == restored.trainer.step_count >= 2
    assert len(rows) == restored.progress.step


def exact_curve(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[row[key] for key in CURVE] for row in rows]


class SlowPool(EchoPool):
    """Lets everything else in the loop run, training included, before an episode begins."""

    async def reset(self, requests: Any) -> Any:
        for _ in range(10_000):
            await asyncio.sleep(0)
        return await super().reset(requests)


class UnreachablePool(EchoPool):
    async def reset(self, requests: Any) -> Any:
        raise ConnectionError("the server is gone")


class FailingPool(EchoPool):
    async def reset(self, requests: Any) -> Any:
        return {index: EnvironmentFault("the table broke") for index in requests}


@pytest.mark.parametrize(
    ("pool", "error", "reason"),
    [(UnreachablePool(), ConnectionError, "the server is gone"), (FailingPool(), NothingPlayed, "the table broke")],
)
async def test_rollouts_that_fail_end_the_run_with_their_error(
    tmp_path: Path, pool: EchoPool, error: type[Exception], reason: str
) -> None:
    run = SmallRun(echo_config(), tmp_path)
    run.pools = [pool]
    await run.trainer.publish()
    loop = TrainingLoop(run, TrainingLog(tmp_path, run.config))

    with pytest.raises(error, match=reason):
        await asyncio.wait_for(loop.run(2), 20)


class EndingPool(EchoPool):
    """Its first resets fail as a generator that has ended."""

    left = 0

    async def reset(self, requests: Any) -> Any:
        if EndingPool.left:
            EndingPool.left -= 1
            raise LLMError("the generator cannot be reached")
        return await super().reset(requests)


@pytest.mark.parametrize(("ends", "can_restart", "restarts"), [(4, True, 2), (9, True, 2), (9, False, 0)])
async def test_the_groups_of_a_generator_that_has_ended_are_played_again_twice(
    tmp_path: Path, ends: int, can_restart: bool, restarts: int
) -> None:
    undisturbed = await SmallRun(echo_config(), tmp_path / "undisturbed").run(1)
    run = SmallRun(echo_config(), tmp_path / "disturbed", pool_class=EndingPool)
    run.can_restart, EndingPool.left = can_restart, ends

    if ends == 4:  # both rollouts fail each time
        rows = await run.run(1)
        assert exact_curve(rows) == exact_curve(undisturbed)
    else:
        with pytest.raises(LLMError, match="the generator cannot be reached"):
            await run.run(1)
    assert run.num_recoveries == restarts


class BrieflyFailingPool(EchoPool):
    """Its first sessions of a run fail, most of a step's."""

    left = 0

    async def reset(self, requests: Any) -> Any:
        failed = dict.fromkeys(list(requests)[: type(self).left], EnvironmentFault("the server began anew"))
        type(self).left -= len(failed)
        return await super().reset({index: requests[index] for index in requests if index not in failed}) | failed


@pytest.mark.finding("a step of which most groups were lost is played again")
async def test_a_step_of_which_most_groups_were_lost_is_played_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    BrieflyFailingPool.left = 14
    run = SmallRun(echo_config(), tmp_path, pool_class=BrieflyFailingPool)

    rows = await run.run(2)

    assert [row["num_groups/trained"] for row in rows] == [4, 4]
    assert "groups of a step are played again: EnvironmentFault: the server began anew" in caplog.text


class LosingPool(EchoPool):
    """Finds at one of its resets that a session is gone with its server."""

    lost_at: ClassVar[list[int]] = []
    """That reset, from 1, of each pool that is made next."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lost_at, self._num_resets = LosingPool.lost_at.pop(0), 0

    async def reset(self, requests: Any) -> Any:
        self._num_resets += 1
        found = await super().reset(requests)
        if self._num_resets == self._lost_at:
            found[next(iter(found))] = SessionGone("the server began anew")
        return found


@pytest.mark.parametrize(("num_server_ends", "is_same"), [(1, True), (0, False)])
async def test_a_step_that_a_server_that_ended_was_to_play_is_the_same_once_it_runs_again(
    tmp_path: Path, num_server_ends: int, is_same: bool
) -> None:
    undisturbed = await SmallRun(echo_config(), tmp_path / "undisturbed").run(3)
    LosingPool.lost_at = [2, 4]  # each pool finds it by itself, and the second one while groups are played again
    run = SmallRun(echo_config(), tmp_path / "disturbed", pool_class=LosingPool)
    run.num_server_ends = num_server_ends

    rows = await run.run(3)

    assert (exact_curve(rows) == exact_curve(undisturbed)) is is_same


async def test_training_stops_when_its_time_is_up(tmp_path: Path) -> None:
    config = echo_config(trainer={"training": {"steps": 1000}}, max_minutes=1e-6)

    assert await SmallRun(config, tmp_path).run(1000) == []


async def test_the_garbage_collector_leaves_out_what_is_loaded_only_while_a_run_trains(tmp_path: Path) -> None:
    frozen: list[int] = []

    await SmallRun(echo_config(), tmp_path).run(2, on_step=lambda _row: frozen.append(gc.get_freeze_count()))

    assert min(frozen) > 100_000
    assert gc.get_freeze_count() == 0


async def test_each_step_is_trained_on_groups_that_one_exact_version_played(tmp_path: Path) -> None:
    rows = await SmallRun(echo_config(off_by_n=2, checkpoint={"interval": 4}), tmp_path).run(8)

    # steps are numbered from 1; the run and each checkpoint begin with the weights that there are
    assert [row["off_policy/max_age"] for row in rows] == [0, 1, 2, 2, 0, 1, 2, 2]


class TailPool(EchoPool):
    """An episode of step 2 has seen its first word, and waits until one of step 3 begins."""

    begun: asyncio.Event
    slow: tuple[int, int] | None

    async def reset(self, requests: Any) -> Any:
        for session, keywords in requests.items():
            if keywords["seed"] == group_seed(0, 4) and TailPool.slow is None:
                TailPool.slow = id(self), session
            if keywords["seed"] == group_seed(0, 8):
                TailPool.begun.set()
        return await super().reset(requests)

    async def step(self, actions: Any) -> Any:
        if TailPool.slow == (id(self), *actions):
            await TailPool.begun.wait()
        return await super().step(actions)


async def partial_run(folder: Path, **replay_buffer: Any) -> list[dict[str, Any]]:
    """Four steps with partial rollouts and `TailPool`."""
    sampling = {"partial_rollouts": True, "constrain": True}
    config = echo_config(sampling=sampling, replay_buffer={"batch_size": 4, **replay_buffer})
    TailPool.begun, TailPool.slow = asyncio.Event(), None
    async with asyncio.timeout(60):
        return await SmallRun(config, folder, pool_class=TailPool).run(4, turns=3)


async def test_an_episode_goes_on_with_newer_weights_while_the_next_step_begins(tmp_path: Path) -> None:
    rows = await partial_run(tmp_path)

    assert [row["num_groups/trained"] for row in rows] == [4] * 4
    assert rows[1]["off_policy/max_age"] == 1  # its first word
    assert 0 < rows[1]["off_policy/mean_age"] < 1  # those that follow
    assert max(row["off_policy/max_age"] for row in rows) <= 1
    assert rows[-1]["buffer/evicted"] == 0


@pytest.mark.parametrize(
    ("age_of", "least", "most", "trained"), [("group", 1, 4, 3), ("episode", 5, 16, 4), ("token", 17, 96, 4)]
)
async def test_what_is_too_old_is_left_out_by_groups_episodes_or_tokens(
    tmp_path: Path, age_of: str, least: int, most: int, trained: int
) -> None:
    rows = await partial_run(tmp_path, age_of=age_of, max_policy_age=0)

    assert least <= rows[1]["buffer/evicted"] <= most  # most of step 2 was played by version 0
    assert rows[1]["num_groups/trained"] <= trained
    assert (rows[1]["num_groups/trained"] == 4) == (age_of == "token")
    assert rows[0]["buffer/evicted"] == 0


async def test_a_run_does_not_depend_on_how_fast_its_rollouts_are(tmp_path: Path) -> None:
    config = echo_config(off_by_n=1)
    quick = await SmallRun(config, tmp_path / "a").run(5)

    slow = await SmallRun(config, tmp_path / "b", pool_class=SlowPool).run(5)

    assert exact_curve(slow) == exact_curve(quick)


@pytest.mark.parametrize("device", DEVICES)
async def test_a_run_that_goes_on_at_a_checkpoint_has_the_same_numbers(tmp_path: Path, device: str) -> None:
    config = echo_config(off_by_n=1, checkpoint={"interval": 3})
    uninterrupted = await SmallRun(config, tmp_path / "a", device=device).run(6)
    await SmallRun(config, tmp_path / "b", device=device).run(3)

    resumed = await SmallRun(config, tmp_path / "b", resume=True, device=device).run(3)

    assert exact_curve(resumed) == exact_curve(uninterrupted)


async def rows_of_the_reference(folder: Path, interval: int) -> list[int]:
    """How many rows the reference model has run after each of four steps."""
    config = echo_config(off_by_n=0, checkpoint={"interval": interval}, replay_buffer={"batch_size": 16})
    run, rows, counts = SmallRun(config, folder), 0, []
    run.teach_form()

    def count(_module: Any, _args: Any, keywords: Any) -> None:
        nonlocal rows
        rows += len(keywords["input_ids"])

    run.reference.model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    await run.run(4, lambda _row: counts.append(rows))
    return counts


async def test_at_a_checkpoint_the_reference_forgets_what_a_resumed_run_does_not_know(tmp_path: Path) -> None:
    without = await rows_of_the_reference(tmp_path / "a", interval=0)
    with_checkpoint = await rows_of_the_reference(tmp_path / "b", interval=3)

    assert with_checkpoint[:3] == without[:3]
    assert with_checkpoint[3] > without[3]


async def test_the_schedules_follow_the_steps_where_these_end_before_the_time(tmp_path: Path) -> None:
    limited = await SmallRun(echo_config(max_minutes=10), tmp_path / "a").run(6)
    free = await SmallRun(echo_config(), tmp_path / "b").run(6)

    assert [row["learning_rate"] for row in limited] == [row["learning_rate"] for row in free]


async def test_the_schedules_follow_the_time_where_it_ends_before_the_steps(tmp_path: Path) -> None:
    optimizer = {"warmup_steps": 0, "decay_from": 0.0}
    config = echo_config(trainer={"training": {"steps": 100_000}, "optimizer": optimizer}, max_minutes=0.15)

    rates = [row["learning_rate"] for row in await SmallRun(config, tmp_path).run(100_000)]

    assert len(rates) < 100_000
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.3 * rates[0]


@pytest.mark.parametrize(("equal_groups", "trained"), [("drop", range(1, 12)), ("redraw", [12])])
async def test_equal_groups_are_left_out_or_drawn_again(tmp_path: Path, equal_groups: str, trained: Any) -> None:
    buffer = {"batch_size": 12, "equal_groups": equal_groups}
    config = echo_config(group_size=3, replay_buffer=buffer, loss={"kl_weight": 0.0})
    trainer = {"training": {"steps": 3, "patience": 1000}, "optimizer": {"lr": 1e-3}}
    run = SmallRun(dataclasses.replace(config, trainer=echo_config(trainer=trainer).trainer), tmp_path)
    run.teach_form()

    rows = await run.run(3)

    assert all(row["num_groups/trained"] in trained for row in rows)
    assert all(0 < row["frac_reward_zero_std"] < 1 for row in rows), "of all groups that were played"
    for row in rows:
        differing = row["num_groups/played"] * (1 - row["frac_reward_zero_std"])
        assert round(differing) >= row["num_groups/trained"]
        assert row["num_groups/played"] <= 4 * 12


async def test_a_run_in_which_nothing_can_be_learned_logs_why_and_ends_with_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = echo_config(trainer={"training": {"steps": 50, "patience": 3}}, reward={"scale": 1.0, "clip": [-2, -1.5]})
    run = SmallRun(config, tmp_path)

    with pytest.raises(NothingToLearn, match="no group of the last 6 steps had episodes with different rewards"):
        await run.run(50)

    rows = read_rows(run.metrics_path)
    assert [row["step"] for row in rows if "warning" in row] == [3, 6]
    assert "no group of the last 3 steps" in caplog.text
    assert all(row["frac_reward_zero_std"] == 1 for row in rows)


async def test_training_ends_early_without_an_error_when_a_policy_has_nothing_left_to_learn(tmp_path: Path) -> None:
    training = {"steps": 2000, "patience": 5}
    config = echo_config(
        group_size=8,
        replay_buffer={"batch_size": 16},
        trainer={"training": training, "optimizer": {"lr": 1e-2, "warmup_steps": 1, "decay_from": 0.99}},
        loss={"kl_weight": 0.0},
    )

    rows = await SmallRun(config, tmp_path).run(2000)

    assert len(rows) < 2000
    assert "all returns are 1" in rows[-1]["warning"]


async def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = echo_config(replay_buffer={"batch_size": 4}, watchdog_minutes=0.5, max_minutes=5.0)
    jumps = iter([86_400.0, -5 * 86_400.0, 0.0])
    now = time.time

    def jump(row: dict[str, Any]) -> None:
        offset = next(jumps)
        monkeypatch.setattr(time, "time", lambda: now() + offset)

    undisturbed = await SmallRun(config, tmp_path / "undisturbed").run(3)
    disturbed = await SmallRun(config, tmp_path / "disturbed").run(3, jump)

    assert [row["loss"] for row in disturbed] == [row["loss"] for row in undisturbed]
    assert next(jumps, None) is None
