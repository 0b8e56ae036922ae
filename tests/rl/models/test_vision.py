"""Images reach the model: generator, trainer and reference compute what its own forward computes of pixels."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.core.session_pool import SessionPool
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config, ConfigError, ModelConfig
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.chat_template import ChatTemplateError
from openenv.rl.models.sources.tiny_vision import tiny_image_reader, tiny_vision_model
from openenv.rl.reports.results import read_rows
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.setup import setup_training
from openenv.rl.training.trainer import ReferenceModel, Trainer
from openenv.text.content import image_part
from tests.rl.echo_game import echo_config
from tests.rl.models.small_models import DEVICES

pytestmark = pytest.mark.process

CATCH = f"{Path(__file__).parents[3] / 'examples/catch_pixels/catch_pixels.py'}:CatchPixels"
BOUND = 1e-4  # nats
TINY = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 64, "precision": "float32"}


@pytest.fixture(scope="module")
def catch() -> Iterator[ServedEnvironment]:
    with named_environment(CATCH).served() as served:
        yield served


def vision_chat(*, images: bool = True) -> Chat:
    tokenizer = word_tokenizer(["left stay right won lost"], images=images)
    return Chat(tokenizer, image_reader=tiny_image_reader() if images else None)


def vision_generator(config: Config, chat: Chat, device: str = "cpu") -> Generator:
    model = tiny_vision_model(config.model, chat.tokenizer, max_length=1000, seed=1, device=torch.device(device))
    return Generator(model, chat, max_new_tokens=config.max_res_tokens)


async def played(catch: ServedEnvironment, config: Config, generator: Generator) -> list[Group]:
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as executor:
        async with SessionPool(catch.client, catch.base_url, 8) as pool:
            rollout = Rollout(pool, catch.text, generator, EpisodeReward(), config, executor)
            return await rollout.play(range(3))


def frame(shade: int) -> dict[str, Any]:
    return image_part("frame", np.full((50, 50, 3), shade, np.uint8))


def of_own_forward(model: Any, segment: Segment) -> torch.Tensor:
    """Log-probabilities of the sampled tokens from the model's forward with pixels, as transformers documents it."""
    input_ids = torch.tensor([segment.token_ids.tolist()], device=model.device)
    with torch.no_grad():
        logits = model(
            input_ids=input_ids,
            mm_token_type_ids=(input_ids == model.config.image_token_id).int(),
            pixel_values=torch.cat([image.patches for image in segment.images]).to(model.device),
            image_grid_thw=torch.stack([image.grid for image in segment.images]).to(model.device),
        ).logits[0]
    logits[:, model.config.image_token_id] = -1e9  # it stands for images alone
    table = torch.log_softmax(logits.cpu().float(), dim=-1)
    chosen = table[:-1].gather(1, torch.tensor(segment.token_ids[1:].tolist())[:, None])[:, 0]
    return chosen[torch.tensor(segment.sampled[1:])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("history", ["latest", "full"])
async def test_generator_trainer_and_the_models_own_forward_agree_on_pixels(
    catch: ServedEnvironment, history: str, device: str
) -> None:
    conversation = {"history": history, "retries": 1}
    config = echo_config(model=TINY, max_req_tokens=900, conversation=conversation, group_size=4)
    generator = vision_generator(config, vision_chat(), device)
    generator.require_agreement()
    groups = await played(catch, config, generator)
    batch = make_batch(groups, "dr_grpo", generator.chat.pad_id)
    segments = [s for group in groups for t in group.trajectories for s in t.segments]

    reference = ReferenceModel(generator.model, "float32")
    of_reference = reference.scores(batch).logprobs[batch.position]
    of_trainer = Trainer(generator.model, reference, config, generator.chat.pad_id).step(groups, 0.0)
    own = torch.cat([of_own_forward(generator.model, segment) for segment in segments])

    assert len({image for segment in segments for image in segment.images}) > 3
    assert (batch.generator_logprobs - own).abs().max() < BOUND
    assert (of_reference - own).abs().max() < BOUND
    assert of_trainer["mismatch_kl"] < BOUND


def test_equal_tokens_with_other_images_are_another_context() -> None:
    config = echo_config(model=TINY)
    generator = vision_generator(config, vision_chat())
    talks: list[Any] = [[{"role": "user", "content": [frame(shade)]}] for shade in (0, 255, 0)]

    first, second, third = generator.answer(talks, [Random(3) for _ in talks], generator.chat)

    assert first.token_ids[:20].tolist() == second.token_ids[:20].tolist()
    assert first.logprobs.tolist() == third.logprobs.tolist()
    assert first.logprobs.tolist() != second.logprobs.tolist()


def test_an_image_for_a_model_of_text_is_an_error_that_names_the_field_and_what_to_do() -> None:
    chat = vision_chat(images=False)

    with pytest.raises(ChatTemplateError, match=r"the model reads no images, and 'frame' .* is one\. Use a model of"):
        chat.prompt([{"role": "user", "content": [frame(0)]}])


def test_what_is_no_image_is_an_error_that_names_the_field() -> None:
    broken = {"type": "image", "image": "data:image/png;base64,AAAA", "name": "screen"}

    with pytest.raises(ValueError, match="screen: not an image file"):
        vision_chat().prompt([{"role": "user", "content": [broken]}])


def test_a_width_that_has_no_heads_for_images_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"model\.hidden_size=36: .* multiple of 4 \* model\.num_heads"):
        tiny_vision_model(ModelConfig(hidden_size=36, num_heads=2), vision_chat().tokenizer, max_length=64, seed=0)


async def test_a_run_on_pixels_trains_saves_and_resumes(tmp_path: Path) -> None:
    config = echo_config(
        env=CATCH,
        conversation={"history": "latest"},
        model={**TINY, "precision": "auto"},
        max_req_tokens=64,
        pretrain={"max_decisions": 300, "steps": 40, "batch_size": 32},
        checkpoint={"folder": str(tmp_path)},
        trainer={"training": {"steps": 2}},
    )
    training = await setup_training(config)
    await training.run(1)
    await training.shutdown()
    resumed = await setup_training(config, resume=True)
    result = await resumed.run(1)
    await resumed.shutdown()

    rows = read_rows(result.run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert resumed.engine.chat.image_reader is not None
    assert any(row["grad_norm"] > 0 for row in rows)


async def test_a_loaded_model_is_warmed_on_pixels(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "env": CATCH,
        "conversation": {"history": "latest"},
        "max_req_tokens": 64,
        "checkpoint": {"folder": str(tmp_path)},
        "pretrain": {"max_decisions": 300, "steps": 2},
    }
    await (await setup_training(echo_config(**settings, model={**TINY, "precision": "auto"}))).shutdown()
    saved = tmp_path / "echo" / "checkpoints" / "before_grpo"
    warm_start = {"policy": "always:stay", "max_decisions": 300, "steps": 60, "lr": 1e-2}
    model = {"path": str(saved), "precision": "float32", "instructions": False}

    config = echo_config(**settings, name="warm", model=model, warm_start=warm_start)
    await (await setup_training(config)).shutdown()

    learned = json.loads((config.run_dir / "warm_start.json").read_text())
    assert learned["loss_after"] < 0.1 < learned["loss_before"]


def test_a_server_is_sent_one_token_for_each_image() -> None:
    chat = vision_chat()
    frames = [image_part("frame", np.zeros((28 * size, 28, 3), dtype=np.uint8)) for size in (1, 2)]
    messages: Any = [{"role": "user", "content": [frames[0], {"type": "text", "text": "left"}, frames[1], frames[0]]}]
    prompt, images = chat.prompt(messages), chat.images(messages)
    (image_id,) = chat.image_ids

    once = chat.with_images_once(prompt, images)

    assert (prompt.count(image_id), once.count(image_id)) == (4 + 8 + 4, 3)
    assert [token for token in once if token != image_id] == [token for token in prompt if token != image_id]
    assert [image.url for image in images] == [frame["image"] for frame in (frames[0], frames[1], frames[0])]
