"""Real vLLM samples the replies, in its own virtual environment: `make vllm`."""

import asyncio
import copy
import dataclasses
import json
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import Config, EnvConfig, ModelConfig, SelfPlayConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.evaluation.games import model_policy, play_games
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.generators.probe import GeneratorDisagrees
from openenv.rl.generators.vllm_process import VllmProcess
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.generators.vllm_weights import AllWeights
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import tiny_model
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.reports.results import read_rows
from openenv.rl.setup import TrainingRun, setup_training
from openenv.rl.training.checkpoint import save_model
from openenv.rl.training.trainer import ReferenceModel
from openenv.text.constraints import ReplyConstraint
from tests.core.env_server.probes import is_running
from tests.rl.generators.logprob_distance import distance
from tests.rl.models.test_real_model import MODEL

pytestmark = [pytest.mark.vllm, pytest.mark.process, pytest.mark.real_model]

GENERATOR = {"name": "vllm", "python": os.environ.get("OPENENV_VLLM_PYTHON", "")}
TALKS: list[list[ChatMessage]] = [[{"role": "user", "content": f"say {word}"}] for word in ("red", "green", "blue")]
BOUND = 1e-4


def made() -> tuple[Any, Any]:
    """A model with tied embeddings and random weights, four times as large as fresh ones, and SmolLM2's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    sizes = ModelConfig(hidden_size=64, num_layers=2, num_heads=2, intermediate_size=128)
    model = tiny_model(sizes, tokenizer, max_length=4096, seed=0)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(4.0 if weights.dim() > 1 else 1.0)
    return model, tokenizer


class Served:
    """A small model of tied embeddings, in float32, and vLLM with the same weights."""

    def __init__(self, folder: Path) -> None:
        self.model, tokenizer = made()
        self.chat = Chat(tokenizer)
        save_model(folder / "model", self.model, self.chat)
        config = config_of(
            folder,
            model={"path": str(folder / "model"), "precision": "float32"},
            sampling={"partial_rollouts": True},
        )
        self.store = WeightStore()
        self.generators = RunGenerators(config, self.chat, self.model, str(folder / "model"))
        self.generator = self.generators.for_rollouts(self.model, self.store)
        assert isinstance(self.generator, VllmGenerator)

    def publish(self, changed: float = 0.0) -> int:
        """Publish the weights as the next version, each moved by a random part of itself."""
        draws = torch.Generator().manual_seed(self.store.version)
        with torch.no_grad():
            for weights in self.model.parameters():
                weights.mul_(1 + changed * torch.randn(weights.shape, generator=draws))
        self.store.publish(self.model, self.store.version + 1)
        return self.store.version

    def segments(self, constraints: Any = ()) -> list[Segment]:
        streams = [random.Random(number) for number in range(len(TALKS) * 4)]
        return self.generator.answer(TALKS * 4, streams, self.chat, constraints)


def config_of(folder: Path, **changes: Any) -> Config:
    settings: dict[str, Any] = {"max_req_tokens": 3960, "max_res_tokens": 40, "checkpoint": {"folder": str(folder)}}
    return config_from_mapping({**settings, "generator": GENERATOR, **changes})


def guess_run(folder: Path, name: str, lora: dict[str, int] | None, replicas: int) -> Config:
    """A run of the model in this folder."""
    return config_of(
        folder,
        name=name,
        env={"name": "guess"},
        model={"path": str(folder / "model"), "precision": "float32", "lora": lora},
        generator={**GENERATOR, "replicas": replicas},
        max_req_tokens=400,
        max_res_tokens=8,
        group_size=4,
        replay_buffer={"batch_size": 4},
        loss={"kl_weight": 0.05},
        evaluation={"num_games": 8, "sessions": 8},
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "extended.py").write_text(
        "import openenv_vllm\n"
        "class Workers(openenv_vllm.WholeWeights):\n"
        "    def reload_alone(self, file):\n"
        "        from safetensors.torch import load_file\n"
        "        self.reload_weights(weights_iterator=iter(load_file(file).items()))\n"
    )
    one = Served(folder)
    (process,) = one.generators._processes
    process._command += ["--worker-extension-cls", "extended.Workers"]
    process._env_vars["PYTHONPATH"] += f":{folder}"
    try:
        one.generators.start()
        yield one
    finally:
        one.generators.close()


def test_each_version_of_the_whole_weights_samples_its_replies(served: Served) -> None:
    for changed in (0.0, 0.3, 0.3):
        version = served.publish(changed)

        segments = served.segments()

        assert {segment.policy_version for segment in segments} == {version}
        assert distance(served.model, segments) < BOUND


async def test_a_reply_goes_on_with_the_weights_of_an_update_and_each_token_has_its_version(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = served.generator
    monkeypatch.setattr(generator, "max_new_tokens", 3600)
    known = served.publish(0.3)
    await generator.load_newest()
    before = copy.deepcopy(served.model)
    version = served.publish(0.3)

    asked = [(served.chat.prompt(talk), seed, (), None) for seed, talk in enumerate(TALKS)]
    monkeypatch.setattr(generator, "store", None)
    writing = asyncio.ensure_future(generator._sampled(asked))
    await begun(served, len(asked))
    monkeypatch.setattr(generator, "store", served.store)
    await generator.load_newest()

    for segment in await writing:
        written = segment.versions[segment.sampled].tolist()
        assert written == sorted(written)
        assert set(written) == {known, version}
        for model, number in ((before, known), (served.model, version)):
            (part,) = copy.deepcopy([segment])
            part.sampled[part.versions != number] = False
            assert distance(model, [part]) < 10 * BOUND  # of 3,600 tokens; the other version is nats away


async def begun(served: Served, number: int) -> None:
    """Wait until vLLM has written a part of so many replies."""
    running = re.compile(rf"vllm:num_requests_running{{.*}} {number}\.0")
    async with asyncio.timeout(180), httpx.AsyncClient() as http:
        while not running.search((await http.get(f"{served.generator._urls[0]}/metrics")).text):  # noqa: ASYNC110  HTTP
            await asyncio.sleep(0.02)


def test_equal_random_numbers_give_equal_replies(served: Served) -> None:
    assert [one.token_ids.tolist() for one in served.segments()] == [
        one.token_ids.tolist() for one in served.segments()
    ]


@pytest.mark.parametrize(
    "limit",
    [
        ReplyConstraint(choices=("red", "green")),
        ReplyConstraint(
            schema='{"type": "object", "properties": {"hit": {"type": "boolean"}, "chips": {"type": "array", "items": '
            '{"type": "integer", "minimum": 1, "maximum": 3}, "minItems": 2, "maxItems": 2}}, "required": '
            '["hit", "chips"], "additionalProperties": false}'
        ),
    ],
    ids=["choices", "schema"],
)
def test_limited_replies_are_legal_and_have_the_masks_that_they_were_drawn_with(
    served: Served, limit: ReplyConstraint
) -> None:
    segments = served.segments([limit] * len(TALKS) * 4)
    batch = make_batch([Group(0, [Trajectory(seed=0, segments=[one], outcome="won") for one in segments])], "grpo", 0)
    of_trainer = ReferenceModel(served.model, "float32").scores(batch).logprobs[batch.position]

    for segment in segments:
        written = segment.sampled_ids
        text = served.chat.text(written)
        assert text in limit.choices or set(json.loads(text)) == {"hit", "chips"}
        assert any(segment.masks)
    assert (of_trainer - batch.generator_logprobs).abs().max() < BOUND


def test_weights_that_vllm_keeps_in_part_end_the_run(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # on a processor an output layer that is tied to the embedding keeps its former matrix
    monkeypatch.setattr(AllWeights, "method", "reload_alone")
    version = served.publish(0.3)

    with pytest.raises(GeneratorDisagrees, match=f"nats a token away from the trainer .* to version {version}:"):
        served.segments()
    monkeypatch.undo()
    assert distance(served.model, served.segments()) < BOUND


def replies_of(player: BaseGenerator, chat: Chat) -> list[Segment]:
    assert isinstance(player, VllmGenerator)
    return player.answer(TALKS * 4, [random.Random(number) for number in range(len(TALKS) * 4)], chat)


async def rows_of_run(
    folder: Path, name: str, lora: dict[str, int] | None = None, kills: int = 0, replicas: int = 1
) -> list[Any]:
    """The metrics of three steps with servers of their own, which are gone afterwards."""
    model, tokenizer = made()
    save_model(folder / "model", model, Chat(tokenizer))
    run = await setup_training(guess_run(folder, name, lora, replicas))
    processes = run.engine._generators._processes
    pids = [process._process.pid for process in processes if process._process is not None]
    assert len(pids) == replicas
    kill(run.engine.generator, processes[0], kills)
    before = run.engine.player(temperature=1.0, before=True, alone=True)
    assert distance(run.engine.trainer.model, await asyncio.to_thread(replies_of, before, run.engine.chat)) < BOUND
    try:
        await run.run(steps=3)
        after = run.engine.player(temperature=1.0, alone=True)
        found = await asyncio.to_thread(replies_of, after, run.engine.chat)
        assert {segment.policy_version for segment in found} == {3}
        assert distance(run.engine.trainer.model, found) < BOUND
        if kills:
            await evaluate_on_a_killed_server(run, processes[0], after)
    finally:
        await run.shutdown()
    assert not any(map(is_running, pids))
    assert all(process.log_file.exists() for process in processes)
    return read_rows(run.config.run_dir / "metrics.jsonl")


async def evaluate_on_a_killed_server(run: TrainingRun, process: VllmProcess, player: BaseGenerator) -> None:
    assert process._process is not None
    os.killpg(process._process.pid, signal.SIGKILL)
    environment, recoveries = run.engine.environments[0], run.engine.num_recoveries

    async with run.engine.pool(0, 4) as pool:
        games = await play_games(
            pool, model_policy(run.config, environment, player), 8, 0,
            config=run.config, environment=environment, recovering=run.engine,
        )  # fmt: skip

    assert all(game.outcome != "invalid" for game in games)
    assert run.engine.num_recoveries == recoveries + 1
    found = await asyncio.to_thread(replies_of, player, run.engine.chat)
    assert distance(run.engine.trainer.model, found) < BOUND


async def test_an_adapter_of_each_step_plays_also_on_a_server_that_was_killed(tmp_path: Path) -> None:
    rows = await rows_of_run(tmp_path, "adapter", {"rank": 8}, kills=1)

    assert [row["off_policy/max_age"] for row in rows] == [0, 1, 1]
    assert rows[0]["mismatch_kl"] < 1e-6


async def test_two_replicas_of_which_one_is_killed_play_the_same_groups_as_one_server(tmp_path: Path) -> None:
    undisturbed = await rows_of_run(tmp_path, "undisturbed")
    disturbed = await rows_of_run(tmp_path, "disturbed", kills=1, replicas=2)

    assert [row["off_policy/max_age"] for row in undisturbed] == [0, 1, 1]
    assert undisturbed[0]["mismatch_kl"] < 1e-6
    assert [row["return"] for row in disturbed] == [row["return"] for row in undisturbed]


@pytest.mark.parametrize("lora", [{"rank": 8}, None])
async def test_opponents_have_the_weights_of_an_earlier_step(tmp_path: Path, lora: dict[str, int] | None) -> None:
    model, tokenizer = made()
    save_model(tmp_path / "model", model, Chat(tokenizer))
    config = guess_run(tmp_path, "self-play", lora, 1)
    itself = EnvConfig(name="openspiel", reset={"game_name": "kuhn_poker"}, self_play=SelfPlayConfig(refresh=2))
    run = await setup_training(dataclasses.replace(config, env=[itself], off_by_n=0))
    try:
        await run.run(steps=4)
        (opponents,) = run.engine._opponents.values()
        assert isinstance(opponents, VllmGenerator) == (lora is not None)
        assert opponents.policy_version == 2  # the step before the last was trained on version 2, the last on version 3
        opponents.store = None  # what it answers now is of what it has
        streams = [random.Random(number) for number in range(len(TALKS))]
        found = await asyncio.to_thread(opponents.answer, TALKS, streams, run.engine.chat)
    finally:
        await run.shutdown()
    earlier, trained = run.engine.trainer.model, dict(run.engine.trainer.model.named_parameters())
    with torch.no_grad():
        for name, weights in load_file(run.config.run_dir / "opponents/every_2/000002.safetensors").items():
            trained[name].copy_(weights)
    assert distance(earlier, found) < BOUND


def kill(generator: Any, process: VllmProcess, times: int) -> None:
    """Let a server be killed as soon as it has received weights, so many times."""
    load, killed = generator.load_newest, set()

    async def load_and_kill() -> None:
        await load()
        server = process._process
        if len(killed) < times and server not in killed:
            assert server is not None
            killed.add(server)
            os.killpg(server.pid, signal.SIGKILL)

    generator.load_newest = load_and_kill


def test_a_program_without_vllm_is_named(tmp_path: Path) -> None:
    model, tokenizer = made()
    chat = Chat(tokenizer)
    config = config_of(tmp_path, generator={"name": "vllm", "python": "/no/python"})
    generators = RunGenerators(config, chat, copy.deepcopy(model), str(tmp_path))

    with pytest.raises(RuntimeError, match=r"generator\.python: /no/python cannot be run"):
        generators.start()
