"""The reference model never changes: its cached log-probabilities equal those of a new forward pass."""

import torch

from openenv.rl.algorithm.batch import TrainingBatch, make_batch
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.models.language_model import tiny_model
from openenv.rl.training.trainer import ReferenceModel
from tests.rl.algorithm.test_batch import episode, segment
from tests.rl.echo_game import echo_chat, echo_config


def reference_model() -> ReferenceModel:
    model = tiny_model(echo_config().model, echo_chat().tokenizer, max_length=16, seed=0)
    return ReferenceModel(model, "float32")


def batch_of(*sequences: tuple[tuple[int, ...], int]) -> TrainingBatch:
    episodes = [episode(float(n), segment(ids, start)) for n, (ids, start) in enumerate(sequences)]
    return make_batch([Group(0, episodes)], "dr_grpo", 0)


def test_cached_values_equal_those_of_a_forward_pass() -> None:
    reference = reference_model()
    reference.scores(batch_of(((3, 4, 5), 1), ((3, 5), 1)))
    mixed = batch_of(((3, 5), 1), ((3, 4, 5), 1), ((3, 4, 5), 2), ((4, 4, 3, 5, 3), 2))

    assert torch.allclose(reference.scores(mixed).logprobs, reference_model().scores(mixed).logprobs, atol=1e-6)


def test_a_sequence_is_run_once() -> None:
    reference, rows = reference_model(), []
    reference.model.base_model.register_forward_pre_hook(
        lambda _module, _args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    batch = batch_of(((3, 4, 5), 1), ((3, 5), 1))
    first, second = reference.scores(batch).logprobs, reference.scores(batch).logprobs

    assert len(rows) == 1
    assert torch.equal(first, second)
