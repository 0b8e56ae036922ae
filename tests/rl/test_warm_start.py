"""A loaded model learns the replies of a teacher before GRPO."""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi import FastAPI
from typer.testing import CliRunner

from openenv.cli.main import app
from openenv.hosting.local_process import LocalServer
from openenv.rl import supervised_phase
from openenv.rl.config import Config, ConfigError, LoraSettings
from openenv.rl.config.models import GeneratorConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.models.language_model import load_model
from openenv.rl.models.lora import has_adapter
from openenv.rl.setup import setup_training
from openenv.rl.starting_model import StartingModel
from openenv.rl.training.demonstrations import imitate
from tests.rl.generators.vllm_stand_in import StandIn
from tests.rl.test_setup import TINY

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def blackjack() -> Iterator[dict[str, Any]]:
    with LocalServer("openenv.envs.openspiel_env.server.app") as server:
        yield {"server_url": server.base_url, "reset": {"game_name": "blackjack"}}


def set_up(config: Config) -> None:
    """Prepare a run, without a step."""

    async def prepared() -> None:
        await (await setup_training(config)).shutdown()

    asyncio.run(prepared())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, blackjack: dict[str, Any]) -> Path:
    """A tiny model that has seen random play, as one that a user loads."""
    folder = tmp_path_factory.mktemp("saved")
    config = config_from_mapping({**TINY, "env": blackjack, "checkpoint": {"folder": str(folder)}})
    set_up(config)
    return folder / "tiny" / "checkpoints" / "before_grpo"


def run_of(folder: Path, env: Any, saved: Path, warm_start: dict[str, Any], **model: Any) -> Config:
    settings = {
        "env": env, "checkpoint": {"folder": str(folder)}, "trainer": {"training": {"steps": 1}},
        "model": {"path": str(saved), "precision": "float32", "instructions": False, **model},
        "warm_start": {"steps": 80, "batch_size": 64, "lr": 1e-2, "max_decisions": 1000, **warm_start},
    }  # fmt: skip
    return config_from_mapping({**TINY, "name": "warm", **settings})


async def test_the_model_before_grpo_is_a_copy_of_its_teacher(
    tmp_path: Path, blackjack: dict[str, Any], saved: Path
) -> None:
    phases: set[str] = set()
    config = run_of(tmp_path, blackjack, saved, {"policy": "always:stand"})

    run = await setup_training(config, on_progress=lambda phase, *_: phases.add(phase))
    asked = [{"role": "user", "content": f"Your hand is {cards}. The dealer shows 6."} for cards in ("2 3", "9 K")]
    replies = run.engine.player(temperature=0.0, before=True).complete([[one] for one in asked])  # type: ignore[list-item]
    await run.shutdown()

    assert {"teacher", "warm start"} <= phases
    assert list(map(str, replies)) == ["stand", "stand"]
    learned = json.loads((config.run_dir / "warm_start.json").read_text())
    assert learned["teacher"] == "always:stand"
    assert learned["loss_after"] < 0.1 < learned["loss_before"]
    assert learned["likeliest_after"] == pytest.approx(1.0)


async def test_only_the_generators_weights_are_cast(tmp_path: Path, blackjack: dict[str, Any], saved: Path) -> None:
    settings = {"policy": "random", "steps": 1}
    run = await setup_training(run_of(tmp_path, blackjack, saved, settings, precision="bfloat16"))
    trained = {weights.dtype for weights in run.engine.trainer.model.parameters()}
    sampled = {weights.dtype for weights in run.engine.player(temperature=0.0).model.parameters()}  # type: ignore[attr-defined]
    await run.shutdown()

    assert trained == {torch.float32}
    assert sampled == {torch.float32, torch.bfloat16}


async def test_an_adapter_is_warmed_and_is_the_policy_before_grpo_also_when_resumed(
    tmp_path: Path, blackjack: dict[str, Any], saved: Path
) -> None:
    settings = {"lora": {"rank": 8}, "gradient_checkpointing": True}
    config = run_of(tmp_path, blackjack, saved, {"policy": "always:hit"}, **settings)
    await (await setup_training(config)).shutdown()
    folder = config.run_dir / "checkpoints" / "before_grpo"
    assert (folder / "adapter_model.safetensors").exists()

    resumed = await setup_training(config, resume=True)
    asked: Any = [[{"role": "user", "content": "Your hand is 9 K. The dealer shows 6."}]]
    (reply,) = resumed.engine.player(temperature=0.0, before=True).complete(asked)
    await resumed.shutdown()

    assert reply == "hit"


async def test_a_vllm_server_plays_the_warmed_adapter_before_grpo(
    tmp_path: Path, blackjack: dict[str, Any], saved: Path, serving: Callable[[FastAPI], str]
) -> None:
    model, tokenizer = load_model(saved)
    lora = LoraSettings(rank=8)
    server = StandIn(str(saved), model, StartingModel(model, tokenizer, None).chat(), lora)
    config = run_of(tmp_path, blackjack, saved, {"policy": "always:hit"}, lora={"rank": 8})

    generator = GeneratorConfig(name="vllm", url=serving(server.app))
    sampling = dataclasses.replace(config.sampling, constrain=False)
    run = await setup_training(dataclasses.replace(config, sampling=sampling, generator=generator))
    asked: Any = [[{"role": "user", "content": "Your hand is 9 K. The dealer shows 6."}]]
    (reply,) = run.engine.player(temperature=0.0, before=True).complete(asked)
    await run.shutdown()

    assert reply == "hit"
    assert server.adapters == {}


@pytest.mark.parametrize(
    ("warm_start", "message"),
    [
        ({"policy": "chess"}, "warm_start.policy='chess': policy='chess' is unknown"),
        ({"policy": "learning"}, "learns while it plays"),
        (
            {"min_return": 2.0, "max_episodes": 8},
            "min_return=2.0: .* 8 are left out, and the best return is",
        ),
        ({"episodes": ["lost.jsonl"]}, "warm_start.episodes: there is no file 'lost.jsonl'"),
        ({"episodes": [__file__]}, "warm_start.episodes=.*Is it a file of episodes"),
        ({"policy": "smart"}, "warm_start.policy='smart': .*plays catch only"),
        ({"policy": "chart", "episodes": [__file__]}, "Leave one of them out"),
        ({"steps": 0}, "warm_start.steps=0: must be at least 1"),
    ],
)
async def test_a_warm_start_that_cannot_be_is_refused_with_its_setting(
    warm_start: dict[str, Any], message: str, tmp_path: Path, blackjack: dict[str, Any], saved: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        await setup_training(run_of(tmp_path, blackjack, saved, warm_start))


async def test_an_adapter_that_was_warmed_has_no_reference_to_be_pulled_back_to(saved: Path) -> None:
    settings = {"model": {"path": str(saved), "lora": {}}, "warm_start": {}}

    with pytest.raises(ConfigError, match=r"loss\.kl_weight=0\.1: with model\.lora"):
        config_from_mapping({**settings, "loss": {"kl_weight": 0.1}})
    config_from_mapping(settings)


async def test_a_teacher_plays_its_share_in_each_environment_with_the_chat_of_that(
    tmp_path: Path, blackjack: dict[str, Any], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught: list[tuple[Any, int, set[str]]] = []

    def spied(model: Any, parts: Any, *arguments: Any, **options: Any) -> Any:
        taught.extend(
            (chat, play.num_decisions, {m[0][1].split()[0] for m, _ in play.transcripts}) for chat, play in parts
        )
        return imitate(model, parts, *arguments, **options)

    monkeypatch.setattr(supervised_phase, "imitate", spied)
    catch = {"server_url": blackjack["server_url"], "reset": {"game_name": "catch"}, "weight": 3.0}
    config = run_of(tmp_path, [blackjack, catch], saved, {"policy": "random", "max_decisions": 800, "steps": 2})
    run = await setup_training(config)
    await run.shutdown()

    (first, few, hands), (second, many, balls) = taught
    assert [first, second] == [environment.chat for environment in run.engine.environments]
    assert 200 <= few < 300
    assert 600 <= many < 900
    assert hands.isdisjoint(balls)


async def test_a_warm_start_without_time_for_a_batch_is_an_error(
    tmp_path: Path, blackjack: dict[str, Any], saved: Path
) -> None:
    config = run_of(tmp_path, blackjack, saved, {"policy": "random"})

    with pytest.raises(ConfigError, match="max_minutes: its half was over"):
        await setup_training(dataclasses.replace(config, max_minutes=1e-6))


def test_a_tiny_model_is_pretrained_instead() -> None:
    with pytest.raises(ConfigError, match=r"warm_start.*needs model.path"):
        config_from_mapping({"warm_start": {}})


def command(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result.output


def test_recorded_episodes_teach_alone_and_in_a_run(tmp_path: Path, blackjack: dict[str, Any], saved: Path) -> None:
    episodes = tmp_path / "episodes"
    command(
        "eval", blackjack["server_url"], "--reset", "game_name=blackjack", "--policy", "random", "--episodes", 60,
        "--save", episodes, "--plot", tmp_path / "eval.png", "--text", "openenv.envs.openspiel_env.text:OpenSpielText",
    )  # fmt: skip
    (file,) = episodes.glob("*.jsonl")

    shown = command(
        "sft", file, "--model", saved, "--out", tmp_path / "sft", "--steps", 60, "--lr", 1e-2, "--min-return", 0
    )

    assert int(shown.partition(" episodes left out")[0].split()[-1]) > 0
    assert "tokens of replies that are the likeliest" in shown
    load_model(tmp_path / "sft")
    command("sft", file, "--model", saved, "--out", tmp_path / "merged", "--steps", 2, "--lora-rank", 2)
    model, _ = load_model(tmp_path / "merged")
    assert not has_adapter(model)
    with pytest.raises(AssertionError, match="exists"):
        command("sft", file, "--model", saved, "--out", tmp_path / "sft")

    config = run_of(tmp_path, blackjack, saved, {"episodes": [str(file)], "steps": 5})
    set_up(config)
    learned = json.loads((config.run_dir / "warm_start.json").read_text())
    assert (learned["num_episodes"], learned["teacher"]) == (60, str(file))
