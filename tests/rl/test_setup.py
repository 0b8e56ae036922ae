"""Whole runs against a real server."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from openenv.core.errors import ServerUnreachable
from openenv.envs.openspiel_env import OpenSpielEnv, OpenSpielText
from openenv.hosting.local_process import LocalServer
from openenv.policies import ChatMessage, PromptBuilder
from openenv.rl.algorithm.learning_signal import NothingToLearn
from openenv.rl.config import Config, ConfigError, LoraSettings
from openenv.rl.config_file import config_from_mapping
from openenv.rl.evaluation import comparison
from openenv.rl.generators.embedded import Generator
from openenv.rl.loop import TrainingLoop
from openenv.rl.models.language_model import load_model
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.reports.results import read_rows
from openenv.rl.reports.run_state import failure, run_state
from openenv.rl.run import run, run_blocking, with_game
from openenv.rl.setup import setup_forge_training, setup_training
from openenv.rl.training.trainer import Trainer
from tests.core.env_server.probes import is_running
from tests.rl.generators.vllm_stand_in import StandIn

pytestmark = pytest.mark.process

TINY: dict[str, Any] = {
    "name": "tiny",
    "env": {"name": "openspiel", "reset": {"game_name": "blackjack"}},
    "model": {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 64},
    "group_size": 4,
    "groups_in_flight": 4,
    "max_req_tokens": 512,
    "max_res_tokens": 3,
    "pretrain": {"max_episodes": 200, "steps": 30, "batch_size": 64},
    "replay_buffer": {"batch_size": 4},
    "trainer": {"training": {"steps": 3}},
    "evaluation": {"num_games": 40, "sessions": 8},
}


EVALUATED = {"num_games": 16, "sessions": 8, "interval": 1, "interval_games": 6, "pass_k": 2}
BY_OUTCOME = {"win": 2.0, "push": 0.5, "loss": -1.0}


@pytest.fixture(scope="module")
def blackjack() -> Iterator[dict[str, Any]]:
    """The `env` key of a run on a server that all tests of this module share."""
    with LocalServer("openenv.envs.openspiel_env.server.app") as server:
        yield {"server_url": server.base_url, "reset": {"game_name": "blackjack"}}


def tiny(folder: Path, **changes: Any) -> Config:
    return config_from_mapping({**TINY, "checkpoint": {"folder": str(folder)}, **changes})


async def test_three_steps_inside_a_running_loop_against_a_server_of_its_own(tmp_path: Path) -> None:
    seen: list[str] = []
    trainer = await setup_training(tiny(tmp_path), on_progress=lambda phase, *_: seen.append(phase))

    result = await trainer.run(steps=2)
    result = await trainer.run(steps=1)
    await trainer.shutdown()
    await trainer.shutdown()

    assert result.steps == 3
    assert [row["step"] for row in read_rows(result.run_dir / "metrics.jsonl")] == [1, 2, 3]
    assert all(row["episodes/invalid"] == 0 for row in read_rows(result.run_dir / "metrics.jsonl"))
    assert {"random play", "pretrain", "train"} == set(seen)


async def test_the_yaml_of_the_tutorial_names_a_server(tmp_path: Path) -> None:
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "catch"]) as server:
        path = tmp_path / "run.yaml"
        config = {key: value for key, value in TINY.items() if key != "env"}
        config |= {"blackjack_env": {"server_url": server.base_url}, "checkpoint": {"folder": str(tmp_path)}}
        path.write_text(json.dumps(config))  # JSON is YAML
        trainer = await setup_forge_training(path)
        result = await trainer.run(steps=1)
        await trainer.shutdown()

    assert result.steps == 1


def children() -> set[int]:
    """The processes that threads of this one have started."""
    files = Path("/proc/self/task").glob("*/children")
    return {int(pid) for file in files for pid in file.read_text().split()}


async def test_a_setup_that_is_cancelled_while_its_server_starts_leaves_none(tmp_path: Path) -> None:
    before = children()
    setup = asyncio.ensure_future(setup_training(tiny(tmp_path)))
    async with asyncio.timeout(20):
        while not (server := children() - before):  # noqa: ASYNC110  no event
            await asyncio.sleep(0.005)
    assert len(server) == 1

    setup.cancel()
    with pytest.raises(asyncio.CancelledError):
        await setup

    assert not any(map(is_running, server))


async def test_an_unreachable_server_is_an_error_at_once(tmp_path: Path) -> None:
    env = {"server_url": "http://127.0.0.1:1", "reset": {"game_name": "blackjack"}}

    with pytest.raises(ServerUnreachable):
        await setup_training(tiny(tmp_path, env=env))


async def test_a_model_saved_to_disk_is_loaded_and_trained(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    # a model that knows most commands, in groups so large that the episodes of a group hardly all end alike
    settings = {"env": blackjack, "group_size": 8, "pretrain": {**TINY["pretrain"], "steps": 100}}
    first = await setup_training(tiny(tmp_path, **settings))
    await first.run(steps=1)
    await first.shutdown()
    saved = tmp_path / "tiny" / "checkpoints" / "before_grpo"

    second = await setup_training(
        tiny(tmp_path, **settings, name="again", model={"path": str(saved), "precision": "float32"})
    )
    result = await second.run(steps=2)
    await second.shutdown()

    assert any(row["grad_norm"] > 0 for row in read_rows(result.run_dir / "metrics.jsonl"))
    assert result.metrics["episodes/unparseable"] < result.metrics["num_episodes"]


async def test_prompts_that_no_limit_or_model_has_room_for_are_an_error_before_pretraining(
    tmp_path: Path, blackjack: dict[str, Any]
) -> None:
    phases: set[str] = set()

    def report(phase: str, *_: Any) -> None:
        phases.add(phase)

    with pytest.raises(ConfigError, match=r"max_req_tokens=3: an episode's first prompt has \d+ tokens\. Raise"):
        await setup_training(tiny(tmp_path, env=blackjack, max_req_tokens=3), on_progress=report)
    assert phases == {"random play"}
    small = await setup_training(tiny(tmp_path, env=blackjack, max_req_tokens=60))
    await small.shutdown()
    folder = tmp_path / "tiny" / "checkpoints" / "before_grpo"
    model = {"path": str(folder), "precision": "float32", "instructions": False}

    with pytest.raises(ConfigError, match=r"max_req_tokens=61: with max_res_tokens=3 more than the 63 positions"):
        await setup_training(tiny(tmp_path, env=blackjack, name="again", model=model, max_req_tokens=61))


async def test_replies_that_are_longer_than_their_limit_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nim = {"name": "openspiel", "reset": {"game_name": "nim"}}  # a reply is such as "3 take 5"
    warnings = []
    for most in (2, 3):
        await (await setup_training(tiny(tmp_path, env=nim, name=f"nim-{most}", max_res_tokens=most))).shutdown()
        warnings.append([r.getMessage() for r in caplog.records if "replies of random play" in r.getMessage()])
        caplog.clear()

    (cut_off,), none = warnings
    assert "replies of random play have up to 3 tokens, more than max_res_tokens=2" in cut_off
    assert none == []


async def test_prompts_that_grow_beyond_their_limit_are_a_warning_that_names_the_remedies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = f"{Path(__file__).with_name('points_env.py')}:PointsEnvironment"
    warnings = []
    for history in ("full", "latest"):
        settings = {"env": points, "name": history, "conversation": {"history": history}, "max_req_tokens": 12}
        await (await setup_training(tiny(tmp_path, **settings))).shutdown()
        warnings.append([r.getMessage() for r in caplog.records if "max_req_tokens=12" in r.getMessage()])
        caplog.clear()

    (grown,), none = warnings
    assert "tokens, and 64 of 64 more than max_req_tokens=12" in grown
    assert "set conversation.history to latest, or out_of_tokens to forget" in grown
    assert none == []


async def test_a_derived_text_shows_the_newest_observation_alone_where_whole_episodes_do_not_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = f"{Path(__file__).with_name('points_env.py')}:PointsEnvironment"

    async def shown(most: int, *, resume: bool = False, **conversation: Any) -> Any:
        settings = {"env": points, "name": f"at-{most}", "max_req_tokens": most, "conversation": conversation}
        run = await setup_training(tiny(tmp_path, **settings), resume=resume)
        await run.shutdown()
        return run.engine.environments[0].served.text.history

    assert await shown(12) == "latest"
    assert "64 of 64 episodes of random play have up to" in caplog.text
    assert "set conversation.history to full and raise max_req_tokens" in caplog.text
    caplog.clear()

    assert await shown(12, resume=True) == "latest"
    assert await shown(200) == "full"
    assert await shown(12, out_of_tokens="forget") is None
    assert await shown(12, history="full") is None
    assert "shows the newest observation alone" not in caplog.text


async def test_an_adapter_of_a_loaded_model_is_trained_and_resumed(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    first = await setup_training(tiny(tmp_path, env=blackjack))
    await first.shutdown()
    saved = tmp_path / "tiny" / "checkpoints" / "before_grpo"
    model = {"path": str(saved), "precision": "float32", "lora": {"rank": 2}, "gradient_checkpointing": True}
    config = tiny(tmp_path, env=blackjack, name="adapter", model=model)

    second = await setup_training(config)
    await second.run(steps=1)
    await second.shutdown()
    third = await setup_training(config, resume=True)
    result = await third.run(steps=1)
    await third.shutdown()

    assert result.steps == 2
    assert (tmp_path / "adapter" / "checkpoints" / "step_000002" / "adapter_model.safetensors").exists()
    asked: list[ChatMessage] = [{"role": "user", "content": "hand J 5 dealer 7"}]
    base = Generator(load_model(saved)[0], third.engine.chat, max_new_tokens=3, temperature=0.0)
    assert third.engine.player(temperature=0.0, before=True).complete([asked]) == base.complete([asked])


async def test_a_run_that_an_earlier_version_began_is_resumed(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    config = tiny(tmp_path, env=blackjack)
    first = await setup_training(config)
    await first.run(steps=1)
    await first.shutdown()
    file = tmp_path / "tiny" / "config.json"
    known = json.loads(file.read_text())
    del (
        known["generator"],
        known["sampling"]["together"],
        known["loss"]["mask_tokens"],
        known["model"]["float32_output"],
    )
    known["model"]["vllm_url"] = ""  # it has moved
    file.write_text(json.dumps(known))

    resumed = await setup_training(config, resume=True)
    result = await resumed.run(steps=1)
    await resumed.shutdown()

    assert result.steps == 2


async def test_a_vllm_server_samples_the_replies_of_a_run(
    tmp_path: Path, blackjack: dict[str, Any], serving: Callable[[FastAPI], str]
) -> None:
    first = await setup_training(tiny(tmp_path, env=blackjack))
    await first.shutdown()
    saved = tmp_path / "tiny" / "checkpoints" / "before_grpo"
    server = StandIn(str(saved), load_model(saved)[0], first.engine.chat, LoraSettings(rank=2))
    model = {"path": str(saved), "precision": "float32", "lora": {"rank": 2}}

    trainer = await setup_training(
        tiny(
            tmp_path,
            env=blackjack,
            name="served",
            model=model,
            generator={"name": "vllm", "url": serving(server.app)},
            off_by_n=0,
            max_req_tokens=512,
            sampling={"constrain": False},
            loss={"kl_weight": 0.05},  # each step has a gradient
            evaluation=EVALUATED,
        )
    )
    result = await trainer.run(steps=3)
    players = [trainer.engine.player(temperature=0.0, before=before) for before in (True, False)]
    replies = [player.complete([[{"role": "user", "content": "hand J 5 dealer 7"}]]) for player in players]
    await trainer.shutdown()

    rows = read_rows(result.run_dir / "metrics.jsonl")
    assert all(abs(row["mismatch_kl"]) < 1e-6 for row in rows)
    assert server.num_loaded >= 4  # three steps, and the player after training
    assert server.max_loaded <= 3  # that of the rollouts, and the player's before and after a step
    assert all(row["eval/score"] is not None for row in rows)
    assert server.adapters == {}
    assert all(replies)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.finding("a second run of the same name leaves the first one alone")
async def test_a_second_run_of_the_same_name_leaves_the_one_that_trains_alone(
    tmp_path: Path, blackjack: dict[str, Any]
) -> None:
    first = await setup_training(tiny(tmp_path, env=blackjack))

    for resume in (False, True):
        with pytest.raises(RuntimeError, match="another process is making this run"):
            await setup_training(tiny(tmp_path, env=blackjack), resume=resume)
    await first.run(steps=2)
    await first.shutdown()

    assert [row["step"] for row in read_rows(tmp_path / "tiny" / "metrics.jsonl")] == [1, 2]
    assert names_in(tmp_path) == ["tiny"]


async def test_a_resumed_run_goes_on_from_its_checkpoint(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    first = await setup_training(tiny(tmp_path, env=blackjack))
    await first.run(steps=2)
    await first.shutdown()

    second = await setup_training(tiny(tmp_path, env=blackjack), resume=True)
    result = await second.run(steps=1)
    await second.shutdown()

    assert [row["step"] for row in read_rows(result.run_dir / "metrics.jsonl")] == [1, 2, 3]


async def test_a_resumed_run_goes_on_in_its_trackers_and_transcripts(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    first = await setup_training(tiny(tmp_path, env=blackjack, report_to="tensorboard", transcripts={"interval": 1}))
    await first.run(steps=2)
    await first.shutdown()

    second = await setup_training(tiny(tmp_path, env=blackjack, report_to="tensorboard"), resume=True)
    result = await second.run(steps=1)
    await second.shutdown()

    rows = read_rows(result.run_dir / "metrics.jsonl")
    rewards = scalars(result.run_dir, "train/reward")
    assert rewards == [(row["step"], pytest.approx(row["reward"])) for row in rows]
    assert [step for step, _ in rewards] == [1, 2, 3]
    assert {row["step"] for row in read_rows(result.run_dir / "transcripts.jsonl")} == {1, 2}


async def test_a_tracker_that_is_missing_ends_a_run_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)

    with pytest.raises(ImportError, match="trackio is not installed"):
        await setup_training(tiny(tmp_path, report_to="trackio"))

    assert not (tmp_path / "tiny").exists()


def scalars(run_dir: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(run_dir / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


async def test_a_tiny_model_with_instructions_knows_their_words(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    model = {**TINY["model"], "instructions": True}
    pretrain = {"max_episodes": 200, "steps": 1}
    trainer = await setup_training(tiny(tmp_path, env=blackjack, model=model, pretrain=pretrain))
    await trainer.shutdown()

    with OpenSpielEnv(base_url=blackjack["server_url"]) as env:
        seen = env.reset(**blackjack["reset"]).observation
    prompt = PromptBuilder(OpenSpielText(), instructions=True).opening(seen)
    chat = trainer.engine.chat
    assert chat.tokenizer.unk_token_id not in chat.prompt(prompt)


async def test_anyone_can_replace_the_reward(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    trainer = await setup_training(tiny(tmp_path, env=blackjack), reward=lambda trajectory: 7.0)
    result = await trainer.run(steps=1)
    await trainer.shutdown()

    assert result.metrics["reward"] == 7.0
    assert result.metrics["frac_reward_zero_std"] == 1.0


async def test_a_game_without_wins_has_groups_with_a_signal_and_bins_of_returns(
    tmp_path: Path, blackjack: dict[str, Any]
) -> None:
    pretrain = {"max_episodes": 300, "max_decisions": 800, "steps": 60, "batch_size": 64}
    config = with_game(tiny(tmp_path, env=blackjack, reward=BY_OUTCOME, pretrain=pretrain), "cliff_walking")
    trainer = await setup_training(config)
    result = await trainer.run(steps=2)
    await trainer.shutdown()

    rows = read_rows(result.run_dir / "metrics.jsonl")
    assert any(row["frac_reward_zero_std"] < 1 and row["grad_norm"] > 0 for row in rows)
    words = trainer.engine.chat.tokenizer.get_vocab()
    assert len([word for word in words if word.startswith("return=-")]) > 3


async def test_a_time_budget_covers_random_play_and_pretraining(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    endless = {"max_episodes": 10_000_000, "max_decisions": 10_000_000, "steps": 10_000_000, "batch_size": 64}
    seen: dict[str, dict[str, Any]] = {}
    trainer = await setup_training(
        tiny(tmp_path, env=blackjack, pretrain=endless, max_minutes=0.1),
        on_progress=lambda phase, done, total, known: seen.update({phase: known}),
    )
    result = await trainer.run(steps=100_000)
    await trainer.shutdown()

    assert seen.keys() >= {"random play", "pretrain"}
    assert seen["random play"]["minutes_left"] > seen["pretrain"]["minutes_left"] > 0
    assert result.steps < 100_000


async def test_a_run_that_cannot_learn_fails_with_the_reason_and_reports(tmp_path: Path) -> None:
    dull = f"{Path(__file__).with_name('points_env.py')}:DullEnvironment"
    training = {"trainer": {"training": {"steps": 100, "patience": 2}}, "max_res_tokens": 2}
    training["pretrain"] = {**TINY["pretrain"], "max_episodes": 40}  # too few to judge random play
    config = tiny(tmp_path, env={"name": dull}, reward={"unparseable": 7.0, "scale": 1.0}, **training)

    with pytest.raises(NothingToLearn, match=r"all returns are 7|returns range from 7 to 7"):
        await run(config)

    assert "no group of the last 4 steps" in (tmp_path / "tiny" / "report.html").read_text()
    assert run_state(tmp_path / "tiny") == "failed"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("DullEnvironment", r"^all 200 returns of random play are 7: let the environment reward"),
        ("UnrewardedEnvironment", r"^no step of 200 episodes of random play had a reward: return one from step\(\)"),
    ],
)
@pytest.mark.finding("a run that cannot learn ends at once, and one that made no step has failed")
async def test_a_run_whose_random_play_always_ends_alike_fails_before_it_pretrains(
    tmp_path: Path, name: str, reason: str
) -> None:
    dull, seen = f"{Path(__file__).with_name('points_env.py')}:{name}", set[str]()
    config = tiny(tmp_path, env={"name": dull}, max_res_tokens=2)

    with pytest.raises(NothingToLearn, match=reason):
        await setup_training(config, on_progress=lambda phase, *_: seen.add(phase))

    assert seen == {"random play"}
    assert run_state(tmp_path / "tiny") == "failed"


@pytest.mark.finding("a run that cannot learn ends at once, and one that made no step has failed")
async def test_a_run_that_makes_no_step_has_failed(tmp_path: Path, blackjack: dict[str, Any]) -> None:
    evaluation = {"num_games": 64, "sessions": 8}
    result = await run(tiny(tmp_path, env=blackjack, max_minutes=0.0001, evaluation=evaluation))

    assert result.failure.startswith("no step was made: max_minutes=0.0001 was spent before. Raise it")
    assert {row.role: row.num_games for row in result.results if row.num_games} == {
        "baseline": 64,
        "before": 8,
        "after": 8,
    }


@pytest.mark.parametrize("steps", [2, 9], ids=["a trial", "one that its time ends"])
async def test_a_run_without_a_difference_within_any_group_has_failed_unless_it_is_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    luck = f"{Path(__file__).with_name('points_env.py')}:LuckEnvironment"
    monkeypatch.setattr(TrainingLoop, "_is_time_up", lambda loop: loop._engine.progress.step >= 2)
    training = {"steps": steps, "patience": 9}

    result = await run(tiny(tmp_path, env=luck, trainer={"training": training}, sampling={"constrain": True}))

    assert result.steps == 2
    assert result.failure.startswith("steps=2: the episodes from one start had equal rewards") == (steps > 2)


async def test_an_operation_that_is_never_deterministic_is_an_error_that_names_the_setting(
    tmp_path: Path, blackjack: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: Trainer, groups: Any, progress: float) -> dict[str, float]:
        torch.zeros(1).put_(torch.tensor([0]), torch.ones(1))
        raise AssertionError("PyTorch has a deterministic put_ now: take another operation")

    monkeypatch.setattr(Trainer, "step", step)
    torch.use_deterministic_algorithms(True)  # as a run does on CUDA
    try:
        with pytest.raises(ConfigError, match=r"^model\.deterministic=True: PyTorch has none for put_\. Set it to"):
            await run(tiny(tmp_path, env=blackjack))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "model.deterministic=True" in str(failure(tmp_path / "tiny"))


@pytest.mark.parametrize("game", ["blackjack", "catch", "tic_tac_toe"])
async def test_a_run_compares_and_reports(tmp_path: Path, game: str) -> None:
    config = with_game(tiny(tmp_path, report_to="tensorboard"), game)

    result = await run(config)

    names = [row.name for row in result.results]
    assert names[0] == "random"
    assert names[-3:] == ["before GRPO (sampled)", "after GRPO (greedy)", "optimum"]
    assert all(row.num_games == 40 for row in result.results if row.role != "optimum")
    page = result.report.read_text()
    assert result.run_dir == tmp_path / game
    assert "Recorded games" in page
    assert "Transcripts of step 1" in page
    (after,) = (row for row in result.results if row.role == "after")
    assert scalars(result.run_dir, "eval/after/win_rate") == [(3, pytest.approx(after.win_rate))]
    assert [step for step, _ in scalars(result.run_dir, "eval/random/win_rate")] == [0]


@pytest.mark.finding("a run that cannot learn ends at once, and one that made no step has failed")
@pytest.mark.parametrize("role", ["before", "after"])
async def test_a_model_plays_as_many_games_as_its_share_of_the_time_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blackjack: dict[str, Any], role: str
) -> None:
    monkeypatch.setattr(comparison, "_MODEL_SHARES", {role: 0.0})
    games = {"num_games": 40, "sessions": 32}

    result = await run(tiny(tmp_path, env=blackjack, evaluation=games, max_minutes=10))

    played = {player.role: player.num_games for player in result.results}
    assert played == {"baseline": 40, "before": 40, "after": 40} | {role: 8}


@pytest.mark.finding("a client knows its process and its event loop")
async def test_a_run_trains_in_a_notebooks_cell_where_an_event_loop_runs(
    tmp_path: Path, blackjack: dict[str, Any]
) -> None:
    config = tiny(tmp_path, env=blackjack, trainer={"training": {"steps": 1}})

    result = run_blocking(config)

    assert len(read_rows(result.run_dir / "metrics.jsonl")) == 1


async def test_a_run_is_evaluated_while_it_trains_and_keeps_its_best_checkpoint(
    tmp_path: Path, blackjack: dict[str, Any]
) -> None:
    phases: list[tuple[str, dict[str, Any]]] = []
    config = tiny(tmp_path, env=blackjack, evaluation=EVALUATED, report_to="tensorboard")

    result = await run(config, on_progress=lambda phase, _done, _total, known: phases.append((phase, known)))

    rows = read_rows(result.run_dir / "metrics.jsonl")
    assert [step for step, _ in scalars(result.run_dir, "eval/greedy/win_rate")] == [1, 2, 3]
    assert all(0 <= row["eval/greedy/win_rate"] <= row["eval/greedy/win_rate_interval"][1] <= 1 for row in rows)
    assert all(row["eval/pass@2"] >= row["eval/sampled/win_rate"] for row in rows)
    best = BestCheckpoint.load(result.run_dir)
    assert best is not None
    assert best.score == max(row["eval/score"] for row in rows)
    assert load_model(result.run_dir / "checkpoints" / "best")[1] is not None
    assert "Win rate in evaluations" in result.report.read_text()
    counts = [(known["evaluated"], known["to_evaluate"]) for phase, known in phases if "evaluated" in known]
    assert counts.count((18, 18)) == 3
    assert {phase for phase, known in phases if "evaluated" in known} == {"train"}


async def test_the_chart_of_a_game_does_not_play_another_environments_game_of_that_name(tmp_path: Path) -> None:
    points = f"{Path(__file__).with_name('points_env.py')}:PointsEnvironment"

    result = await run(tiny(tmp_path, env={"name": points, "reset": {"game_name": "blackjack"}}))

    assert [row.role for row in result.results] == ["baseline", "before", "after"]


INTERRUPTED = """
import json, sys
from openenv.rl.config_file import config_from_mapping
from openenv.rl.run import run_blocking
config = config_from_mapping(json.loads(sys.argv[1]))
run_blocking(config, on_progress=lambda what, *_: print(what, flush=True))
"""


@pytest.fixture
def training():
    """Starts a run of a configuration in a process, which is killed at the end."""
    with contextlib.ExitStack() as stack:

        def start(config: dict[str, Any]) -> "subprocess.Popen[str]":
            command = [sys.executable, "-c", INTERRUPTED, json.dumps(config)]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(child.communicate)
            stack.callback(child.kill)
            return child

        yield start


@pytest.mark.finding("a lost server and Ctrl-C have a line at once, with how to go on")
def test_ctrl_c_keeps_what_was_made(tmp_path: Path, training: Any) -> None:
    config = {**TINY, "checkpoint": {"folder": str(tmp_path)}, "trainer": {"training": {"steps": 100_000}}}
    child = training(config)
    steps = (line for line in child.stdout if line == "train\n")
    next(steps), next(steps), next(steps)  # two have ended as the third begins

    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)

    assert errors.strip().endswith("KeyboardInterrupt")
    assert len(read_rows(tmp_path / "tiny" / "metrics.jsonl")) >= 2
    assert "Training" in (tmp_path / "tiny" / "report.html").read_text()
    latest = (tmp_path / "tiny" / "checkpoints" / "latest").read_text()
    assert (tmp_path / "tiny" / "checkpoints" / latest / "model.safetensors").exists()


def test_ctrl_c_does_not_wait_for_the_end_of_pretraining(tmp_path: Path, training: Any) -> None:
    reading = {**TINY["pretrain"], "steps": 10_000_000}
    child = training({**TINY, "checkpoint": {"folder": str(tmp_path)}, "pretrain": reading})
    assert "pretrain\n" in child.stdout

    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)

    assert errors.strip().endswith("KeyboardInterrupt")


def test_importing_the_setup_does_not_import_torch() -> None:
    program = "import sys, openenv.rl.setup, openenv.rl.run; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
