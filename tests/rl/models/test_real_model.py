"""What holds for any model, tried on a pretrained one: SmolLM2-135M-Instruct, which `make model` gets."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import dither, load_model, next_token_logits
from openenv.rl.training.trainer import Trainer
from openenv.text.constraints import ReplyConstraint

MODEL = Path(__file__).parents[3] / "models" / "smollm2-135m"
RULES = "Blackjack: come closer to 21 than the dealer without going over. Reply with one of these: hit, stand."
HANDS = ("You have 9 and Q, hard 19.", "You have 2 and 3, hard 5.", "You have A and 6, soft 17.")
PLAYS = ReplyConstraint(choices=("hit", "stand"))

pytestmark = [pytest.mark.real_model, pytest.mark.process]


@pytest.fixture(scope="module")
def smollm2() -> tuple[Any, Chat]:
    if not (MODEL / "model.safetensors").exists():
        assert "CI" not in os.environ, "run `make model`"
        pytest.skip("SmolLM2 is not here: run `make model`")
    torch.set_num_threads(1)
    model, tokenizer = load_model(MODEL)
    return model, Chat(tokenizer)


def played(model: Any, chat: Chat, constraint: ReplyConstraint | None) -> list[Segment]:
    prompts = [
        chat.prompt([{"role": "system", "content": RULES}, {"role": "user", "content": f"{hand} The dealer shows 4."}])
        for hand in HANDS
        for _ in range(4)
    ]
    streams = [random.Random(number) for number in range(len(prompts))]
    generator = Generator(model, chat, max_new_tokens=6)
    return generator.generate(prompts, streams, (), [constraint] * len(prompts) if constraint else ())


def groups_of(segments: list[Segment]) -> list[Group]:
    episodes = [
        Trajectory(seed=0, segments=[segment], outcome="won", reward=float(number % 2))
        for number, segment in enumerate(segments)
    ]
    return [Group(number, episodes[4 * number : 4 * number + 4]) for number in range(len(HANDS))]


def trainer_of(model: Any, chat: Chat, **changes: Any) -> Trainer:
    settings = {"model": {"path": str(MODEL), "precision": "float32"}, "trainer": {"tokens_per_forward": 2048}}
    return Trainer(model, None, config_from_mapping({**settings, **changes}), chat.pad_id)


@pytest.mark.parametrize("constraint", [None, PLAYS], ids=["free", "constrained"])
def test_trainer_and_generator_agree(smollm2: tuple[Any, Chat], constraint: ReplyConstraint | None) -> None:
    model, chat = smollm2
    kept = {name: weights.clone() for name, weights in model.state_dict().items()}
    segments = played(model, chat, constraint)

    metrics = trainer_of(model, chat).step(groups_of(segments), 0.0)
    model.load_state_dict(kept)

    assert metrics["mismatch_kl"] < 1e-6
    if constraint:
        replies = {chat.text(g.sampled_ids) for g in segments}
        assert replies == set(PLAYS.choices)


def test_a_step_stays_within_its_budget_whatever_learning_rate_it_begins_with(smollm2: tuple[Any, Chat]) -> None:
    model, chat = smollm2
    kept = {name: weights.clone() for name, weights in model.state_dict().items()}
    groups = groups_of(played(model, chat, PLAYS))

    for lr in (1e-5, 1e-3):
        settings = {"tokens_per_forward": 2048, "optimizer": {"lr": lr}, "kl_target": 0.02}
        trainer = trainer_of(model, chat, trainer=settings, loss={"entropy_floor": 0.0})
        metrics = trainer.step(groups, 0.0)
        model.load_state_dict(kept)

        assert 0 < metrics["step_kl"] < 2 * 0.02


def test_tokens_that_sequences_share_are_run_once_with_equal_results(smollm2: tuple[Any, Chat]) -> None:
    model, chat = smollm2
    segments = played(model, chat, PLAYS)[::4]
    width = max(len(segment.token_ids) for segment in segments)
    ids = torch.tensor([[*s.token_ids, *(chat.pad_id,) * (width - len(s.token_ids))] for s in segments])
    last = torch.tensor([len(segment.token_ids) - 2 for segment in segments])
    forwards: list[int] = []
    hook = model.model.register_forward_pre_hook(
        lambda _model, _args, given: forwards.append(given["input_ids"].numel()), with_kwargs=True
    )

    with torch.no_grad():
        shared = next_token_logits(model, ids, torch.arange(len(ids)), last)
        hook.remove()
        pairs = zip(segments, last.tolist(), strict=True)
        alone = [model(torch.tensor([segment.token_ids.tolist()])).logits[0, place] for segment, place in pairs]

    assert sum(forwards) < 0.7 * ids.numel()
    assert (shared - torch.stack(alone)).abs().max() < 1e-3


def test_a_dithered_model_computes_the_same_in_bfloat16_but_for_rounding(smollm2: tuple[Any, Chat]) -> None:
    model, chat = smollm2
    kept = {name: weights.clone() for name, weights in model.state_dict().items()}
    ids = torch.tensor([chat.prompt([{"role": "user", "content": HANDS[0]}])])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        before = torch.log_softmax(model(ids).logits.float(), dim=-1)
        dither(model, seed=0)
        after = torch.log_softmax(model(ids).logits.float(), dim=-1)
    model.load_state_dict(kept)

    assert (before.exp() * (before - after)).sum(dim=-1).mean() < 1e-2  # as far as bfloat16 is from float32
