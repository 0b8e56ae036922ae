"""Processes that hold parts of a trainer make the steps of a single one, and read its checkpoints, and it theirs."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from openenv.hosting.server_process import free_port
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.trainer import Trainer, make_reference
from tests.rl.models.small_models import small_model
from tests.rl.training.test_trainer import groups_of
from tests.rl.training.two_ranks import CASES, Trained, config_of, model_of, rank, trained

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
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    torch.set_num_threads(1)
    return Both(tmp_path_factory.mktemp("ranks"))


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
    groups = groups_of(small_model(case.model)[0], chat)
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
