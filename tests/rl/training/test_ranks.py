"""Processes that hold parts of a trainer make the steps of a single one, and read its checkpoints, and it theirs."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.spawn import spawn
from transformers import PreTrainedModel

from openenv.hosting.server_process import free_port
from openenv.rl.algorithm.batch import TrainingBatch, make_batch
from openenv.rl.config import ConfigError
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.ranks import Ranks
from openenv.rl.training.trainer import Trainer, make_reference
from tests.rl.training.two_ranks import CASES, Trained, config_of, groups_for, model_of, rank, trained

NEAR = 1e-6  # gradients are added up in another order

each_case = pytest.mark.parametrize("name", CASES)


class Both:
    """The trainings of each case, by one process and by two."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.one = {name: trained(case, folder / name / "one", folder / name / "one") for name, case in CASES.items()}
        spawn(rank, (free_port(), str(folder), tuple(CASES)), nprocs=2)
        self.two = {name: Trained(*torch.load(folder / name / "two.pt")) for name in CASES}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Both(tmp_path_factory.mktemp("ranks"))
    torch.set_num_threads(threads)


def distance(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).detach().abs().max()) for name in ours)


@each_case
def test_two_processes_train_the_weights_of_one(both: Both, name: str) -> None:
    one, two = both.one[name], both.two[name]

    before = {name: weights for name, weights in model_of(CASES[name])[0].named_parameters() if weights.requires_grad}
    assert distance(one.weights, before) > 100 * NEAR
    assert distance(one.weights, two.weights) < NEAR


@each_case
def test_each_holds_half_of_the_weights_and_gathers_layer_after_layer(both: Both, name: str) -> None:
    one, two = both.one[name], both.two[name]

    assert (one.held, one.num_divided) == (1.0, 0)
    assert two.held == pytest.approx(0.5, abs=0.01)
    assert two.num_divided == model_of(CASES[name])[0].config.num_hidden_layers + 1


def test_a_process_with_fewer_sequences_repeats_one_that_is_not_its_own() -> None:
    case = CASES["one process has fewer sequences"]
    batch = make_batch(groups_for(case), config_of(case).advantage, 0)
    whole = dict(tokens_of(Ranks(), batch))

    found = [tokens_of(Ranks(number, 2), batch) for number in range(2)]

    assert len(found[0]) == len(found[1])
    assert [is_own for parts in found for _, is_own in parts].count(False) == 1
    own = [number for parts in found for numbers, is_own in parts if is_own for number in numbers]
    assert sorted(own) == sorted(number for numbers in whole for number in numbers)


def tokens_of(ranks: Ranks, batch: TrainingBatch) -> list[tuple[tuple[int, ...], bool]]:
    return [(tuple(tokens.tolist()), is_own) for tokens, _, is_own in ranks.parts(batch, 1)]


def test_a_model_that_reads_images_is_not_divided() -> None:
    model = SimpleNamespace(config=SimpleNamespace(model_type="qwen2_5_vl"))

    with pytest.raises(ConfigError, match=r"model\.path='qwen2_5_vl': a model that reads images trains in one process"):
        Ranks(0, 2).shard(cast("PreTrainedModel", model))


@each_case
def test_their_metrics_are_those_of_one(both: Both, name: str) -> None:
    for ours, theirs in zip(both.one[name].metrics, both.two[name].metrics, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)


@each_case
def test_two_go_on_from_a_checkpoint_of_one(both: Both, name: str) -> None:
    assert distance(both.one[name].weights, both.two[name].after_resuming) < NEAR


@each_case
def test_one_goes_on_from_a_checkpoint_of_two(both: Both, name: str) -> None:
    case = CASES[name]
    (model, chat), config = model_of(case), config_of(case)
    trainer = Trainer(model, make_reference(model, config), config, chat.pad_id)

    progress = Checkpoints(both.folder / name / "two").restore(trainer)
    groups = groups_for(case)
    for step in range(progress.step, case.steps):
        trainer.step(groups, step / case.steps)

    own = {name: weights for name, weights in trainer.model.named_parameters() if weights.requires_grad}
    assert progress.step == case.steps // 2
    assert distance(both.one[name].weights, own) < NEAR
    saved = {
        folder: both.folder / name / folder / "checkpoints" / f"step_{progress.step:06d}" for folder in ("one", "two")
    }
    files = [sorted(file.name for file in folder.iterdir()) for folder in saved.values()]
    assert files[0] == files[1]
