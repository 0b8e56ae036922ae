"""A vLLM server samples the replies, with the adapter of the latest step. A stand-in speaks its API."""

import asyncio
import gc
import random
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from fastapi import FastAPI, Request, Response

from openenv.agents.llm.http import LLMError
from openenv.core.errors import NotReady
from openenv.hosting.server_process import ServerProcess
from openenv.rl.config import ConfigError, LoraSettings
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators import vllm_process
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.generators.probe import EXACT, ROUNDED, GeneratorDisagrees, Probe
from openenv.rl.generators.vllm_process import VllmProcess
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.generators.vllm_weights import Adapters
from openenv.rl.models.chat import Chat
from openenv.rl.models.lora import adapter_config, add_adapter
from openenv.rl.models.reply_masks import allows
from openenv.rl.models.weight_store import WeightStore
from openenv.text.constraints import ReplyConstraint
from tests.rl.generators.logprob_distance import distance
from tests.rl.generators.vllm_stand_in import StandIn
from tests.rl.models.small_models import small_model

LORA = LoraSettings(rank=4)


@pytest.fixture
def stand_in() -> StandIn:
    model, tokenizer = small_model("Llama")
    return StandIn("base", model, Chat(tokenizer), LORA)


def trained_model() -> Any:
    """A model whose adapter changes what it writes."""
    model, _ = small_model("Llama")
    add_adapter(model, LORA, "base")
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if ".lora_B" in name:
                weights.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(0))
    return model


def asked(chat: Chat, number: int = 12) -> tuple[list[tuple[int, ...]], list[random.Random]]:
    words = ("red", "green", "blue")
    prompts = [chat.prompt([{"role": "user", "content": f"word {words[i % 3]}"}]) for i in range(number)]
    return prompts, [random.Random(i) for i in range(number)]


def vllm(url: str, stand_in: StandIn, folder: Path, store: WeightStore | None) -> VllmGenerator:
    adapters = Adapters([url], "base", folder, adapter_config(stand_in.model))
    vocab_size = stand_in.model.config.vocab_size
    return VllmGenerator([url], stand_in.chat, adapters, store=store, max_new_tokens=4, vocab_size=vocab_size)


def test_replies_come_from_the_adapter_that_was_published_last(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    store, model = WeightStore(), trained_model()
    generator = vllm(serving(stand_in.app), stand_in, tmp_path, store)
    untrained, _ = small_model("Llama")
    add_adapter(untrained, LORA, "base")
    store.publish(untrained, 0)
    first = generator.generate(*asked(stand_in.chat))
    store.publish(model, 1)

    second = generator.generate(*asked(stand_in.chat))

    assert ({segment.policy_version for segment in first}, {s.policy_version for s in second}) == ({0}, {1})
    assert distance(model, second) < 1e-4
    assert distance(untrained, first) < 1e-4 < distance(untrained, second)
    prompts, _ = asked(stand_in.chat)
    assert [tuple(segment.token_ids[: len(prompt)]) for segment, prompt in zip(second, prompts, strict=True)] == prompts
    assert all(segment.sampled.argmax() == len(prompt) for segment, prompt in zip(second, prompts, strict=True))
    assert (len(stand_in.adapters), stand_in.max_loaded) == (1, 2)
    generator.close()
    assert stand_in.adapters == {}
    assert list(tmp_path.iterdir()) == []


def test_equal_streams_give_equal_replies_and_no_store_means_no_adapter(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    generator = vllm(serving(stand_in.app), stand_in, tmp_path, None)

    once, again = generator.generate(*asked(stand_in.chat)), generator.generate(*asked(stand_in.chat))

    assert once == again
    assert distance(small_model("Llama")[0], once) < 1e-4
    assert len(generator.complete([[{"role": "user", "content": "word red"}]])) == 1


def test_a_server_that_refuses_is_an_error_with_its_reason(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    def named(url: str, model: str) -> VllmGenerator:
        adapters = Adapters([url], model, tmp_path, None)
        return VllmGenerator([url], stand_in.chat, adapters, max_new_tokens=4, vocab_size=8)

    with pytest.raises(LLMError, match=r"returned 404: .*the model another does not exist"):
        named(serving(stand_in.app), "another").generate(*asked(stand_in.chat, 1))
    with pytest.raises(LLMError, match=r"127\.0\.0\.1:9.* cannot be reached"):
        named("http://127.0.0.1:9", "base").generate(*asked(stand_in.chat, 1))


def test_without_the_route_the_error_names_the_option_that_serves_it(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    generator = vllm(serving(FastAPI()), stand_in, tmp_path, None)

    with pytest.raises(LLMError, match=r"returned 404: .* vLLM 0\.32 serves this path with --enable-scale-out"):
        generator.generate(*asked(stand_in.chat, 1))


def test_a_reply_that_the_server_has_no_room_for_is_an_error(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    generator = vllm(serving(stand_in.app), stand_in, tmp_path, None)
    whole = generator.generate(*asked(stand_in.chat))
    assert any(len(segment.sampled_ids) == 4 for segment in whole)

    stand_in.max_length = 3

    with pytest.raises(LLMError, match=r"ended a reply after 3 of 4 tokens \(length\)\. Give the server a --max-model"):
        generator.generate(*asked(stand_in.chat))


def test_a_busy_server_is_asked_again(stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path) -> None:
    refused = []

    @stand_in.app.middleware("http")
    async def refuse_once(request: Request, call_next: Any) -> Any:
        if not refused:
            refused.append(request.url.path)
            return Response("busy", status_code=503, headers={"Retry-After": "0"})
        return await call_next(request)

    generator = vllm(serving(stand_in.app), stand_in, tmp_path, None)

    assert len(generator.generate(*asked(stand_in.chat, 1))) == 1
    assert refused == ["/inference/v1/generate"]


def test_a_generator_with_other_weights_is_refused_and_rounding_is_not() -> None:
    rounded = Probe(100, "bfloat16", ROUNDED)
    rounded.require_agreement([-1.0, -2.0, -19.0], [-1.02, -2.1, -19.4], 2, "http://x")

    with pytest.raises(GeneratorDisagrees, match=r"http://x is 0\.7 nats .*, at most 5\.0%\) .* version 2: .* other"):
        rounded.require_agreement([-1.0, -2.0, -9.0], [-1.7, -1.3, -9.7], 2, "http://x")
    with pytest.raises(GeneratorDisagrees, match="nan nats"):
        rounded.require_agreement([-1.0, -2.0], [-1.0, float("nan")], 2, "http://x")


def test_the_same_products_in_float32_agree_more_closely() -> None:
    exact = Probe(100, "float32", EXACT)
    exact.require_agreement([-1.0, -2.0, -19.0], [-1.0001, -2.0001, -19.001], 2, "http://x")

    with pytest.raises(GeneratorDisagrees, match=r"0\.17 nats"):
        exact.require_agreement([-1.0, -2.0, -19.0], [-1.02, -2.1, -19.4], 2, "http://x")


def test_a_server_that_has_begun_anew_receives_the_same_version_again(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    store, model = WeightStore(), trained_model()
    generator = vllm(serving(stand_in.app), stand_in, tmp_path / "adapters", store)
    store.publish(model, 3)
    before = generator.generate(*asked(stand_in.chat))

    stand_in.adapters.clear()
    generator.forget()

    assert generator.generate(*asked(stand_in.chat)) == before
    assert len(stand_in.adapters) == 1


async def test_weights_are_delivered_again_if_a_server_begins_anew_while_it_receives_them(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = WeightStore()
    generator = vllm(serving(stand_in.app), stand_in, tmp_path / "adapters", store)
    store.publish(trained_model(), 3)
    deliver, versions = Adapters.deliver, list[int]()

    async def interrupted(self: Adapters, version: int, weights: Any) -> None:
        await deliver(self, version, weights)
        versions.append(version)
        if len(versions) == 1:
            stand_in.adapters.clear()
            generator.forget()

    monkeypatch.setattr(Adapters, "deliver", interrupted)
    await generator.load_newest()

    assert versions == [3, 3]
    assert generator.policy_version == 3
    assert len(stand_in.adapters) == 1


@pytest.mark.parametrize("has_other_weights", [False, True])
async def test_weights_are_delivered_again_if_a_server_begins_anew_while_another_is_measured(
    stand_in: StandIn,
    serving: Callable[[FastAPI], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_other_weights: bool,
) -> None:
    store, measured = WeightStore(), list[int]()
    generator = vllm(serving(stand_in.app), stand_in, tmp_path / "adapters", store)
    store.publish(trained_model(), 3)

    async def interrupted(version: int) -> None:
        measured.append(version)
        if len(measured) == 1:
            stand_in.adapters.clear()
            generator.forget()
            if has_other_weights:
                raise GeneratorDisagrees("it has other weights")

    monkeypatch.setattr(generator, "_require_agreement", interrupted)
    await generator.load_newest()

    assert measured == [3, 3]
    assert generator.policy_version == 3
    assert len(stand_in.adapters) == 1


async def test_an_adapter_stays_while_a_reply_uses_it(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    store, model = WeightStore(), trained_model()
    generator = vllm(serving(stand_in.app), stand_in, tmp_path / "adapters", store)
    store.publish(model, 0)
    await generator.load_newest()

    with generator._delivery.in_use() as first:
        store.publish(model, 1)
        await generator.load_newest()
        assert len(stand_in.adapters) == 2
        assert first in stand_in.adapters
    store.publish(model, 2)
    await generator.load_newest()

    assert len(stand_in.adapters) == 1
    assert first not in stand_in.adapters


def test_replicas_receive_the_same_weights_and_divide_the_episodes(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    other_model, tokenizer = small_model("Llama")
    other = StandIn("base", other_model, Chat(tokenizer), LORA)
    store, model = WeightStore(), trained_model()
    urls = [serving(stand_in.app), serving(other.app)]
    adapters = Adapters(urls, "base", tmp_path / "both", adapter_config(stand_in.model))
    vocab_size = stand_in.model.config.vocab_size
    both = VllmGenerator(urls, stand_in.chat, adapters, store=store, max_new_tokens=4, vocab_size=vocab_size)
    alone = vllm(urls[0], stand_in, tmp_path / "alone", store)
    store.publish(model, 3)

    assert both.generate(*asked(stand_in.chat)) == alone.generate(*asked(stand_in.chat))
    assert (stand_in.num_replies, other.num_replies) == (6 + 12, 6)
    assert (len(stand_in.adapters), len(other.adapters)) == (2, 1)


def run_generators(folder: Path, device: str, **generator: Any) -> RunGenerators:
    model, tokenizer = small_model("Llama")
    shown: Any = SimpleNamespace(config=model.config, device=torch.device(device))
    settings = {"generator": {"name": "vllm", **generator}, "checkpoint": {"folder": str(folder)}}
    return RunGenerators(config_from_mapping(settings), Chat(tokenizer), shown, "model")


def test_each_replica_has_its_gpu_and_several_without_are_refused(tmp_path: Path) -> None:
    replicas = run_generators(tmp_path, "cuda", replicas=2, gpus=["1", "2"])._processes

    assert [one._env_vars["CUDA_VISIBLE_DEVICES"] for one in replicas] == ["1", "2"]
    assert len({one.base_url for one in replicas}) == len({one.log_file for one in replicas}) == 2
    assert "CUDA_VISIBLE_DEVICES" not in run_generators(tmp_path, "cuda")._processes[0]._env_vars
    with pytest.raises(ConfigError, match=r"generator\.gpus=\[\]: .* Name one for each"):
        run_generators(tmp_path, "cuda", replicas=2)


async def test_what_fails_of_one_end_waits_for_one_start_of_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generators, has_ended, starts = run_generators(tmp_path, "cpu"), [True], list[str]()
    may_start = threading.Event()

    def start(process: VllmProcess) -> None:
        has_ended.clear()
        starts.append(process.base_url)
        may_start.wait(20)

    monkeypatch.setattr(VllmProcess, "has_ended", lambda _self: bool(has_ended))
    monkeypatch.setattr(VllmProcess, "start", start)

    cancelled, *others = (asyncio.ensure_future(generators.recovered(0)) for _ in range(3))
    await asyncio.sleep(0.1)
    cancelled.cancel()
    await asyncio.sleep(0.1)
    late = asyncio.ensure_future(generators.recovered(0))
    await asyncio.sleep(0.1)
    assert not any(one.done() for one in (*others, late))
    may_start.set()

    assert await asyncio.gather(*others, late) == [True, True, True]
    assert cancelled.cancelled()
    assert (len(starts), generators.num_recoveries) == (1, 1)
    assert not await generators.recovered(1)


async def test_the_end_of_a_run_ends_a_server_that_is_being_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    generators, made = run_generators(tmp_path, "cpu"), list[ServerProcess]()
    has_begun, loop = asyncio.Event(), asyncio.get_running_loop()

    class Server(ServerProcess):
        def __init__(self, _command: Sequence[str], base_url: str, _env_vars: Any) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], base_url)
            made.append(self)
            loop.call_soon_threadsafe(has_begun.set)

    monkeypatch.setattr(VllmProcess, "has_ended", lambda _self: True)
    monkeypatch.setattr(vllm_process, "ServerProcess", Server)

    waiting = asyncio.ensure_future(generators.recovered(0))
    await has_begun.wait()
    waiting.cancel()
    generators.close()

    await asyncio.wait([cast("asyncio.Future[None]", generators._recovering)])
    assert not made[0].is_running
    with pytest.raises(NotReady, match="the run has ended"):
        generators.start()
    assert len(made) == 1
    del generators
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_former_key_names_the_server() -> None:
    with pytest.warns(FutureWarning, match=r"now called generator\.url"):
        config = config_from_mapping({"model": {"path": "x", "lora": {}, "vllm_url": "http://localhost:8000"}})

    assert (config.generator.name, config.generator.url) == ("vllm", "http://localhost:8000")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "vllm", "url": "http://x"}, r"generator\.url='http://x': .* Set model\.lora"),
        ({"url": "http://localhost:8000"}, r"generator\.url=.* is for generator\.name: vllm"),
        ({"replicas": 2}, r"generator\.replicas=2: is for generator\.name: vllm"),
        ({"name": "vllm", "replicas": 2, "gpus": ["0"]}, r"generator\.gpus=.* one entry for each of the 2 replicas"),
        (
            {"name": "vllm", "url": "http://x", "python": "p"},
            r"generator\.python='p': belongs to a server that the run",
        ),
    ],
)
def test_settings_of_another_generator_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_mapping({"generator": settings})


def test_limits_of_replies_are_sent_and_the_segments_have_their_masks(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    generator = vllm(serving(stand_in.app), stand_in, tmp_path, None)
    prompts, streams = asked(stand_in.chat)

    segments = generator.generate(prompts, streams, (), [ReplyConstraint(choices=("red", "green"))] * len(prompts))

    for segment in segments:
        tokens = segment.sampled_ids
        masks = [mask for mask, is_sampled in zip(segment.masks, segment.sampled, strict=True) if is_sampled]
        assert stand_in.chat.text(tokens) in ("red", "green", "gre", "r")  # or cut off
        assert all(mask is not None and allows(mask, token) for mask, token in zip(masks, tokens, strict=True))


def test_a_server_that_ignores_the_limits_is_an_error(
    stand_in: StandIn, serving: Callable[[FastAPI], str], tmp_path: Path
) -> None:
    stand_in.ignores_limits = True
    generator = vllm(serving(stand_in.app), stand_in, tmp_path, None)
    prompts, streams = asked(stand_in.chat)

    with pytest.raises(LLMError, match="ignored structured_outputs"):
        generator.generate(prompts, streams, (), [ReplyConstraint(choices=("red",))] * len(prompts))
