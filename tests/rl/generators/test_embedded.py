"""What the generator writes, and that the trainer finds it exactly as likely."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch

from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import Precision
from openenv.rl.generators import base
from openenv.rl.generators.embedded import Generator
from openenv.rl.generators.replies import CapturedReplies
from openenv.rl.models.chat import Chat
from openenv.rl.models.devices import autocast
from openenv.rl.models.language_model import cast_matrices, copy_of, tiny_model
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.training.trainer import ReferenceModel
from openenv.text.constraints import ReplyConstraint
from tests.rl.echo_game import WORDS, echo_chat, echo_config, echo_generator

# One float32 rounding of a logit is 2e-7. The generator's matrix products have other shapes than the trainer's (one
# token at a time, beside a cache of keys and values), so the last bits may differ; measured: 4e-6.
FLOAT32_BOUND = 1e-5
BFLOAT16_BOUND = 0.02


def prompts(chat: Chat, number: int, lengths: tuple[int, ...] = (1, 3, 6)) -> list[tuple[int, ...]]:
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=rng.choice(lengths))) for _ in range(number)]
    return [chat.prompt([{"role": "user", "content": text}]) for text in texts]


def streams(number: int) -> list[random.Random]:
    return [random.Random(f"row {i}") for i in range(number)]


def batch_of(segments: list[Segment], pad_id: int):  # type: ignore[no-untyped-def]
    trajectories = [
        Trajectory(seed=0, segments=[segment], outcome="won", reward=float(i % 2)) for i, segment in enumerate(segments)
    ]
    return make_batch([Group(0, trajectories)], "dr_grpo", pad_id)


@pytest.mark.parametrize(("precision", "bound"), [("float32", FLOAT32_BOUND), ("bfloat16", BFLOAT16_BOUND)])
def test_the_trainer_finds_sampled_tokens_as_likely_as_the_generator_did(precision: Precision, bound: float) -> None:
    chat = echo_chat()
    config = echo_config(max_res_tokens=5)
    model = echo_generator(config, chat, sharpness=4.0).model
    generator = Generator(model, chat, max_new_tokens=5, precision=precision)
    batch = batch_of(generator.generate(prompts(chat, 64), streams(64)), chat.pad_id)

    of_trainer = ReferenceModel(model, precision).scores(batch).logprobs[batch.position]

    assert (of_trainer - batch.generator_logprobs).abs().max() <= bound


def test_a_model_whose_matrices_are_cast_once_samples_the_same_to_the_bit() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=5)
    model = echo_generator(config, chat, sharpness=4.0).model
    asked = prompts(chat, 32)
    as_it_is = Generator(copy_of(model), chat, max_new_tokens=5, precision="bfloat16").generate(asked, streams(32))
    store, once = WeightStore(), copy_of(model)
    store.publish(model, 1)

    cast_matrices(once, "bfloat16")
    cast = Generator(once, chat, max_new_tokens=5, precision="bfloat16", store=store).generate(asked, streams(32))

    assert {weights.dtype for weights in once.parameters()} == {torch.float32, torch.bfloat16}
    assert [one.token_ids.tolist() for one in cast] == [one.token_ids.tolist() for one in as_it_is]
    assert [one.logprobs.tolist() for one in cast] == [one.logprobs.tolist() for one in as_it_is]


@pytest.mark.parametrize(("has_amx", "has_avx512"), [(False, False), (True, False), (False, True)])
def test_bfloat16_is_for_processors_that_have_instructions_for_it(
    has_amx: bool, has_avx512: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_avx512)
    ones = torch.ones(2, 2)
    found = {}
    for precision in get_args(Precision):
        with autocast(precision, ones.device):
            found[precision] = (ones @ ones).dtype

    wanted = torch.bfloat16 if has_amx or has_avx512 else torch.float32
    assert found == {"auto": wanted, "float32": torch.float32, "bfloat16": torch.bfloat16}


def test_one_token_replies_to_prompts_of_one_length_are_exactly_as_likely() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=1)
    generator = echo_generator(config, chat, sharpness=4.0)
    written = generator.generate(prompts(chat, 64, lengths=(2,)), streams(64))
    batch = batch_of(written, chat.pad_id)

    of_trainer = ReferenceModel(generator.model, "float32").scores(batch).logprobs[batch.position]

    torch.testing.assert_close(of_trainer, batch.generator_logprobs, rtol=0, atol=5e-6)


def test_a_reply_does_not_depend_on_what_else_is_in_the_batch() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=4)
    generator = echo_generator(config, chat)
    asked = prompts(chat, 20)

    together = generator.generate(asked, streams(20))
    alone = [generator.generate([prompt], [stream])[0] for prompt, stream in zip(asked, streams(20), strict=True)]

    assert [segment.token_ids.tolist() for segment in together] == [segment.token_ids.tolist() for segment in alone]


def test_prompts_beyond_the_tokens_at_once_are_answered_in_parts_with_equal_replies() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=5)
    model = echo_generator(config, chat, sharpness=4.0).model
    asked, sizes = prompts(chat, 40, (1, 3, 6, 20)), []
    whole = Generator(model, chat, max_new_tokens=5).generate(asked, streams(40))

    def measure(_model: Any, _args: Any, given: dict[str, Any]) -> None:
        count, width = given["input_ids"].shape
        sizes.append(count * (given["past_key_values"].get_seq_length() + width))

    model.register_forward_pre_hook(measure, with_kwargs=True)
    parts = Generator(model, chat, max_new_tokens=5, tokens_at_once=120).generate(asked, streams(40))

    assert [part.token_ids.tolist() for part in parts] == [one.token_ids.tolist() for one in whole]
    for part, one in zip(parts, whole, strict=True):
        assert part.logprobs == pytest.approx(one.logprobs, abs=1e-4)
    assert max(sizes) <= 120


def test_only_what_was_sampled_is_marked_as_sampled() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=3)
    prompt = prompts(chat, 1)[0]

    segment = echo_generator(config, chat).generate([prompt], streams(1))[0]

    shown = len(prompt)
    assert tuple(segment.token_ids[:shown]) == prompt
    assert not any(segment.sampled[:shown])
    assert all(segment.sampled[shown:])
    assert len(segment.token_ids) == len(segment.sampled) == len(segment.logprobs)


def test_replies_stop_at_the_end_token_or_at_the_limit() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=3)
    segments = echo_generator(config, chat).generate(prompts(chat, 200), streams(200))

    for segment in segments:
        written = segment.sampled_ids
        assert chat.end_id not in written[:-1]
        assert written[-1] == chat.end_id or len(written) == 3


def test_temperature_zero_takes_the_likeliest_token() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=1)
    generator = echo_generator(config, chat, sharpness=4.0)
    prompt = prompts(chat, 1)[0]
    with torch.no_grad():
        likeliest = int(generator.model(torch.tensor([prompt])).logits[0, -1].argmax())
    generator.temperature = 0.0

    written = generator.generate([prompt] * 5, streams(5))

    assert {segment.token_ids[-1] for segment in written} == {likeliest}


def test_sampling_follows_the_models_distribution() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=1)
    generator = echo_generator(config, chat, sharpness=3.0)
    prompt = prompts(chat, 1)[0]
    with torch.no_grad():
        expected = torch.softmax(generator.model(torch.tensor([prompt])).logits[0, -1], dim=-1)

    written = generator.generate([prompt] * 20_000, streams(20_000))

    tokens = torch.tensor([segment.token_ids[-1] for segment in written])
    share = torch.bincount(tokens, minlength=len(expected)) / len(tokens)
    assert (share - expected).abs().max() < 0.02  # 5 standard errors


def test_new_weights_are_taken_between_calls_with_their_version() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=1)
    store = WeightStore()
    first, second = (tiny_model(config.model, chat.tokenizer, max_length=32, seed=seed) for seed in (0, 1))
    store.publish(first, 0)
    generator = Generator(second, chat, max_new_tokens=1, store=store)
    assert generator.generate(prompts(chat, 1), streams(1))[0].policy_version == 0

    store.publish(tiny_model(config.model, chat.tokenizer, max_length=32, seed=2), 5)

    assert generator.generate(prompts(chat, 1), streams(1))[0].policy_version == 5


def test_published_weights_do_not_change_while_training_goes_on() -> None:
    chat, config = echo_chat(), echo_config()
    store = WeightStore()
    trained, reader = (tiny_model(config.model, chat.tokenizer, max_length=32, seed=seed) for seed in (0, 1))
    before = trained.get_input_embeddings().weight.detach().clone()
    store.publish(trained, 0)
    with torch.no_grad():
        trained.get_input_embeddings().weight.add_(1.0)

    store.load_newer(reader, than=-1)

    torch.testing.assert_close(reader.get_input_embeddings().weight, before)


def test_a_version_is_published_once() -> None:
    chat, config = echo_chat(), echo_config()
    store = WeightStore()
    model = tiny_model(config.model, chat.tokenizer, max_length=32, seed=0)
    store.publish(model, 3)

    with pytest.raises(ValueError, match="3 is already published"):
        store.publish(model, 3)


def test_complete_answers_conversations_in_words() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=1)
    replies = echo_generator(config, chat).complete([[{"role": "user", "content": "red"}]] * 3)

    assert len(replies) == 3
    assert all("<|" not in reply for reply in replies)


def test_each_conversation_draws_numbers_of_its_own() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=6)
    generator = echo_generator(config, chat)
    generator._captured = CapturedReplies(generator.model, chat, generator.precision)  # as on a GPU
    asked: list[list[ChatMessage]] = [[{"role": "user", "content": "red"}]] * 60

    replies = [reply.token_ids for reply in generator.complete(asked)]

    first = Counter(ids[0] for ids in replies if len(ids) > 2).most_common(1)[0][0]
    assert len({tuple(ids[1:3]) for ids in replies if ids[0] == first and len(ids) > 2}) > 1


class CountingGenerator(Generator):
    """Counts the contexts that the model is run for."""

    num_asked = 0

    def generate(self, prompts: Any, *args: Any) -> list[Segment]:
        self.num_asked += len(prompts)
        return super().generate(prompts, *args)


def greedy(generator: Generator, texts: Sequence[str], constraint: ReplyConstraint | None = None) -> list[Segment]:
    """Replies in batches of eight, as an evaluation asks for them."""
    written: list[Segment] = []
    for start in range(0, len(texts), 8):
        asked: list[list[ChatMessage]] = [[{"role": "user", "content": text}] for text in texts[start : start + 8]]
        constraints = [constraint] * len(asked) if constraint else ()
        written += generator.answer(asked, streams(len(asked)), generator.chat, constraints)
    return written


def test_at_temperature_zero_each_prompt_is_run_once_however_many_games_there_are() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=3)
    generator = echo_generator(config, chat, sharpness=4.0, generator_class=CountingGenerator)
    generator.temperature = 0.0
    texts = [" ".join(random.Random(game).choices(WORDS, k=2)) for game in range(200)]
    uncached = generator.generate([chat.prompt([{"role": "user", "content": text}]) for text in texts], streams(200))
    generator.num_asked = 0

    written = greedy(generator, texts)

    assert generator.num_asked == len(set(texts)) == 9
    assert [segment.token_ids.tolist() for segment in written] == [segment.token_ids.tolist() for segment in uncached]
    greedy(generator, texts)
    assert generator.num_asked == 9


def test_a_known_reply_is_not_taken_for_another_constraint_temperature_or_newer_weights() -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=3)
    store = WeightStore()
    store.publish(tiny_model(config.model, chat.tokenizer, max_length=32, seed=0), 0)
    model = tiny_model(config.model, chat.tokenizer, max_length=32, seed=1)
    generator = CountingGenerator(model, chat, max_new_tokens=3, store=store, temperature=0.0)
    greedy(generator, ["red"])

    (constrained,) = greedy(generator, ["red"], ReplyConstraint(choices=("blue",)))
    (again,) = greedy(generator, ["red"], ReplyConstraint(choices=("blue",)))
    assert generator.num_asked == 2
    assert again == constrained
    assert any(again.masks)

    store.publish(model, 3)
    (newer,) = greedy(generator, ["red"])
    assert (generator.num_asked, newer.policy_version) == (3, 3)

    generator.temperature = 1.0
    greedy(generator, ["red"])
    assert generator.num_asked == 4


def test_replies_beyond_the_room_for_them_are_generated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    chat, config = echo_chat(), echo_config(max_res_tokens=3)
    generator = echo_generator(config, chat, generator_class=CountingGenerator)
    generator.temperature = 0.0
    monkeypatch.setattr(base, "_MOST_KNOWN_TOKENS", len(greedy(generator, ["red"])[0].token_ids))

    greedy(generator, ["red", "green"])
    greedy(generator, ["red", "green"])

    assert generator.num_asked == 3
