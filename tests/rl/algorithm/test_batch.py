"""Distinct sequences are run once, and the gradient is that of running them all."""

import random

import pytest
import torch

from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.training.trainer import ReferenceModel, Trainer
from tests.rl.echo_game import WORDS, echo_chat, echo_config, echo_generator

pytestmark = pytest.mark.process


def segment(ids: tuple[int, ...], sampled_from: int, logprob: float = -0.5) -> Segment:
    mask = tuple(i >= sampled_from for i in range(len(ids)))
    return Segment(ids, mask, tuple(logprob if m else 0.0 for m in mask), 0)


def episode(reward: float, *segments: Segment) -> Trajectory:
    return Trajectory(seed=0, segments=list(segments), outcome="won", reward=reward)


def test_equal_sequences_are_one_row() -> None:
    a, b = segment((5, 6, 7, 8), 2), segment((5, 6, 9), 2)

    batch = make_batch([Group(0, [episode(1.0, a), episode(0.0, a), episode(0.0, b), episode(0.0, a)])], "dr_grpo", 0)

    assert batch.input_ids.tolist() == [[5, 6, 7, 8], [5, 6, 9, 0]]
    assert batch.position.tolist() == [0, 1, 0, 1, 2, 0, 1]
    assert batch.targets.tolist() == [7, 8, 9]
    assert batch.columns.tolist() == [1, 2, 1]


def test_a_part_holds_sequences_of_nearly_one_length_up_to_its_number_of_tokens() -> None:
    rng = random.Random(0)
    segments = [segment((number, *range(rng.choice((3, 5, 40)))), 1) for number in range(100, 130)]
    batch = make_batch([Group(0, [episode(float(number), part) for number, part in enumerate(segments)])], "dr_grpo", 0)

    parts = [part for _, part in batch.split(64)]

    assert sum(len(part.input_ids) for part in parts) == 30
    assert all(part.input_ids.numel() <= 64 or len(part.input_ids) == 1 for part in parts)
    assert sum(part.input_ids.numel() for part in parts) < 1.1 * sum(len(part) for part in segments)
    rows = [zip(part.input_ids.tolist(), part.lengths.tolist(), strict=True) for part in parts]
    assert {tuple(ids[:length]) for part in rows for ids, length in part} == {
        tuple(part.token_ids) for part in segments
    }
    tokens = torch.cat([tokens for tokens, _ in batch.split(64)])
    assert sorted(tokens.tolist()) == list(range(len(batch.position)))


def test_shown_tokens_are_in_no_loss() -> None:
    split = Segment((5, 6, 7, 8, 9), (False, True, False, False, True), (0.0, -1.0, 0.0, 0.0, -2.0), 0)

    batch = make_batch([Group(0, [episode(1.0, split), episode(0.0, split)])], "dr_grpo", 0)

    assert batch.targets.tolist() == [6, 9]
    assert batch.generator_logprobs.tolist() == [-1.0, -2.0, -1.0, -2.0]


def test_all_tokens_of_an_episode_have_its_one_advantage() -> None:
    a, b = segment((5, 6, 7), 1), segment((5, 8), 1)

    batch = make_batch([Group(0, [episode(3.0, a, b), episode(1.0, b)])], "dr_grpo", 0)

    assert batch.advantages.tolist() == [1.0, 1.0, 1.0, -1.0]
    assert batch.episode.tolist() == [0, 0, 0, 1]
    assert batch.sequence.tolist() == [0, 0, 1, 2]


def test_tokens_of_old_weights_are_left_out_and_the_others_keep_their_advantage() -> None:
    mixed = Segment((5, 6, 7, 8), (False, True, False, True), (0.0, -1.0, 0.0, -2.0), (2, 2, 3, 3))
    old = Segment((5, 9), (False, True), (0.0, -3.0), 2)
    groups = [Group(0, [episode(3.0, mixed), episode(1.0, old)])]

    batch = make_batch(groups, "dr_grpo", 0, oldest_version=3)

    assert batch.input_ids.tolist() == [[5, 6, 7, 8]]
    assert (batch.targets.tolist(), batch.generator_logprobs.tolist()) == ([8], [-2.0])
    assert (batch.advantages.tolist(), batch.episode.tolist(), batch.num_episodes) == ([1.0], [0], 2)
    assert len(make_batch(groups, "dr_grpo", 0, oldest_version=2).position) == 3


def test_a_sequence_without_a_choice_is_not_run() -> None:
    one, two = (sum(1 << token for token in allowed).to_bytes(2, "little") for allowed in ((7,), (7, 8)))
    forced = Segment((5, 6, 7), (False, False, True), (0.0, 0.0, 0.0), 0, masks=(None, None, one))
    free = Segment((5, 9, 7), (False, False, True), (0.0, 0.0, -0.5), 0, masks=(None, None, two))

    batch = make_batch([Group(0, [episode(1.0, forced, free), episode(0.0, forced)])], "dr_grpo", 0)

    assert batch.input_ids.tolist() == [[5, 9]]
    assert (batch.targets.tolist(), batch.advantages.tolist(), batch.episode.tolist()) == ([7], [0.5], [0])
    only_forced = make_batch([Group(0, [episode(1.0, forced), episode(0.0, forced)])], "dr_grpo", 0)
    assert len(only_forced.position) == 0


def test_invalid_episodes_are_in_no_batch() -> None:
    a = segment((5, 6), 1)
    broken = Trajectory(seed=0, segments=[segment((5, 9), 1)], outcome="invalid")

    batch = make_batch([Group(0, [episode(1.0, a), broken, episode(0.0, a)])], "dr_grpo", 0)

    assert batch.num_episodes == 2
    assert batch.targets.tolist() == [6]


def _trainer_and_groups(tokens_per_forward: int) -> tuple[Trainer, list[Group]]:
    chat = echo_chat()
    config = echo_config(trainer={"tokens_per_forward": tokens_per_forward, "max_grad_norm": 1e9})
    generator = echo_generator(config, chat)
    rng = random.Random(0)
    asked = [chat.prompt([{"role": "user", "content": rng.choice(WORDS)}]) for _ in range(40)]
    segments = generator.generate(asked, [random.Random(i) for i in range(40)])
    trajectories = [episode(float(i % 3), segments[i], segments[i + 1]) for i in range(0, 40, 2)]
    groups = [Group(i, trajectories[i * 4 : i * 4 + 4]) for i in range(5)]
    return Trainer(generator.model, ReferenceModel(generator.model, "float32"), config, chat.pad_id), groups


def test_a_batch_in_parts_has_the_gradient_of_the_whole() -> None:
    whole, groups = _trainer_and_groups(tokens_per_forward=1000)
    parts, _ = _trainer_and_groups(tokens_per_forward=20)

    first, second = whole.step(groups, 0.0), parts.step(groups, 0.0)

    assert (
        second["grad_norm"] == torch.tensor(first["grad_norm"]).item()
        or abs(first["grad_norm"] - second["grad_norm"]) < 1e-5 * first["grad_norm"]
    )
    assert abs(first["entropy"] - second["entropy"]) < 1e-5


def test_the_gradient_is_that_of_every_row_run_by_itself() -> None:
    trainer, groups = _trainer_and_groups(tokens_per_forward=1000)
    model = trainer.model
    loss = torch.zeros(())
    for group in groups:
        mean = sum(t.reward for t in group.trajectories) / 4
        for trajectory in group.trajectories:
            for part in trajectory.segments:
                logprobs = torch.log_softmax(model(torch.tensor([part.token_ids[:-1].tolist()])).logits[0], dim=-1)
                chosen = logprobs.gather(1, torch.tensor(part.token_ids[1:].tolist())[:, None])[:, 0]
                mask = torch.tensor(part.sampled[1:])
                loss = loss - (trajectory.reward - mean) * chosen[mask].sum() / 20
    loss.backward()
    expected = torch.sqrt(sum((p.grad.square().sum() for p in model.parameters()), torch.zeros(()))).item()

    measured = trainer.step(groups, 0.0)["grad_norm"]  # ratio 1, and no divergence from itself: plain policy gradient

    assert abs(measured - expected) < 1e-4 * expected
