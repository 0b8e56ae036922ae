"""A constrained reply is one that the constraint allows, whatever the model would like to write."""

import contextlib
import json
import random
from typing import Any

import pytest
import torch
from transformers import AutoConfig, LlamaForCausalLM

from openenv.core.env_server.mcp_types import Tool
from openenv.core.env_server.types import Action
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.language_model import random_model
from openenv.rl.models.reply_masks import ReplyMasks, allows, masked, num_allowed
from openenv.text.action_forms import ToolForm, form_of
from openenv.text.constraints import ReplyConstraint
from tests.rl.models.small_models import byte_tokenizer, small_tokenizer

PLACES = ("1", "12", "2")


class Buy(Action):
    """Two fields, which a reply names as JSON."""

    kind: str
    amount: int


def replies(constraint: ReplyConstraint, *, number: int = 24, most: int = 40) -> list[str]:
    """Replies of a model with random weights."""
    tokenizer = byte_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = AutoConfig.for_model("llama", vocab_size=len(tokenizer), **sizes)
    model = random_model(LlamaForCausalLM, config, seed=0)
    generator = Generator(model, Chat(tokenizer), max_new_tokens=most)
    prompts = [generator.chat.prompt([{"role": "user", "content": "word red"}])] * number
    streams = [random.Random(i) for i in range(number)]
    return [str(generator.reply(s)) for s in generator.generate(prompts, streams, (), [constraint] * number)]


def masks_of(tokenizer: Any, prompt_end: str = "") -> ReplyMasks:
    end_id, lock = tokenizer.eos_token_id, contextlib.nullcontext()
    return ReplyMasks(tokenizer, vocab_size=len(tokenizer), end_id=end_id, prompt_end=prompt_end, lock=lock)


def test_a_reply_is_one_of_the_choices_also_where_one_begins_another() -> None:
    written = replies(ReplyConstraint(choices=PLACES), number=60)

    assert set(written) == set(PLACES)


@pytest.mark.parametrize(("choices", "passes"), [(("a", "b"), 1), (("a", "ab"), 2)])
def test_an_end_that_alone_may_follow_costs_no_pass(choices: tuple[str, ...], passes: int) -> None:
    tokenizer = byte_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = random_model(LlamaForCausalLM, AutoConfig.for_model("llama", vocab_size=len(tokenizer), **sizes), seed=0)
    chat, calls = Chat(tokenizer), []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    streams = [random.Random(i) for i in range(20)]

    generator = Generator(model, chat, max_new_tokens=8)
    segments = generator.generate([(5, 6)] * 20, streams, (), [ReplyConstraint(choices=choices)] * 20)

    assert {str(generator.reply(segment)) for segment in segments} == set(choices)
    assert len(calls) == passes
    for segment in segments:
        assert segment.token_ids[-1] == chat.end_id
        assert len(segment.masks) == len(segment.logprobs) == len(segment.token_ids)


def test_a_reply_is_json_of_the_actions_schema() -> None:
    constraint = form_of(Buy).constraint()
    assert constraint is not None

    for written in replies(constraint, most=200):
        if written.endswith("}"):  # otherwise it is cut off
            assert set(json.loads(written)) <= {"kind", "amount"}
        assert written.startswith('{"kind": "')


def test_a_reply_is_a_call_of_one_of_the_tools() -> None:
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
    form = ToolForm([Tool(name=name, description="", input_schema=schema) for name in ("weather", "time")])

    for written in replies(form.constraint(), most=120):
        form.parse(written)


def test_a_constraint_has_choices_or_a_schema() -> None:
    with pytest.raises(ValueError, match="give one of them"):
        ReplyConstraint(choices=("hit",), schema="{}")


def test_choices_are_written_as_the_tokenizer_writes_them_and_then_end() -> None:
    tokenizer = word_tokenizer(["hit stand move a1"])
    state = masks_of(tokenizer).start(ReplyConstraint(choices=("hit", "move a1")))
    hit, move, a1 = (tokenizer.encode(word)[0] for word in ("hit", "move", "a1"))
    assert state is not None
    assert state.mask is not None

    assert [token for token in range(len(tokenizer)) if allows(state.mask, token)] == sorted([hit, move])
    for tokens, following in (([hit], tokenizer.eos_token_id), ([move], a1), ([move, a1], tokenizer.eos_token_id)):
        reached = state
        for token in tokens:
            reached = reached.after(token)
        assert reached.mask is not None
        assert num_allowed(reached.mask) == 1
        assert allows(reached.mask, following)


@pytest.mark.parametrize("opens", [True, False])
def test_thinking_is_free_until_its_end_mark(opens: bool) -> None:
    tokenizer = small_tokenizer("chatml kept thinking" if opens else "chatml thinking")
    chat = Chat(tokenizer)
    start = chat.reply_masks(len(tokenizer)).start(ReplyConstraint(choices=("hit", "stand")))
    thought = "<think>\nred or hit?</think>"
    tokens = chat.encode(thought.removeprefix("<think>") if opens else thought)
    state = start
    for token in tokens:
        assert state is not None
        assert state.mask is None or allows(state.mask, token)
        state = state.after(token)
    assert state is not None
    assert state.mask is not None
    first = {chat.encode("hit")[0], chat.encode("stand")[0]}
    allowed = {token for token in range(len(tokenizer)) if allows(state.mask, token)}

    assert first <= allowed
    assert all(not tokenizer.decode([token]).strip() for token in allowed - first)


def test_where_the_prompt_has_ended_the_thinking_the_answer_comes_first() -> None:
    tokenizer = small_tokenizer("chatml thinking")
    chat = Chat(tokenizer, enable_thinking=False)
    state = chat.reply_masks(len(tokenizer)).start(ReplyConstraint(choices=("hit",)))

    assert state is not None
    assert state.mask is not None
    assert num_allowed(state.mask) == 1


def test_masks_of_a_reply_in_other_tokens_are_those_that_spell_the_choices() -> None:
    tokenizer = small_tokenizer("chatml")
    masks = masks_of(tokenizer)
    letters = [i for letter in "hit" for i in tokenizer.encode(letter, add_special_tokens=False)]
    constraint = ReplyConstraint(choices=("hit", "stand"))

    found = masks.masks_of(constraint, [*letters, tokenizer.eos_token_id])

    assert len(found) == 4
    assert all(allows(mask, token) for mask, token in zip(found, [*letters, tokenizer.eos_token_id], strict=True))
    with pytest.raises(ValueError, match="not the begin of a reply"):
        masks.masks_of(constraint, tokenizer.encode("red", add_special_tokens=False))


def test_forbidden_tokens_have_no_probability_and_rows_without_a_mask_keep_all() -> None:
    logits = torch.zeros(2, 8)

    table = torch.softmax(masked(logits, [bytes([0b101]), None]), dim=-1)

    assert table[0].tolist() == [0.5, 0, 0.5, 0, 0, 0, 0, 0]
    assert table[1].tolist() == [1 / 8] * 8
