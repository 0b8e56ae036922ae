"""A game in which one action is safe and the right one is better: where a policy collapses, and what prevents it."""

from pathlib import Path
from typing import Any

import pytest

from openenv.core.client_types import StepResult
from openenv.rl.config import Config
from openenv.rl.signals.collapse import Collapsed
from tests.rl.echo_game import EchoPool, SeenObservation, echo_config
from tests.rl.test_loop import SmallRun

pytestmark = pytest.mark.process

SAFE = "red"
STEPS = 60


class SafeWordPool(EchoPool):
    """`red` has no reward. The word that is shown wins 1, unless it is red; another one loses 2."""

    def _step(self, index: int, word: str) -> Any:
        _, words, turn, _ = self._games[index]
        reward = 0.0 if word == SAFE else 1.0 if word == words[turn] else -2.0
        return StepResult(SeenObservation(word="none", done=True), reward, True)


def careless(**changes: Any) -> Config:
    """A large learning rate, and nothing that keeps the other actions alive."""
    return echo_config(
        **{
            "group_size": 8,
            "replay_buffer": {"batch_size": 16},
            "trainer": {"training": {"steps": STEPS}, "optimizer": {"lr": 2e-2, "warmup_steps": 1}},
            "loss": {"kl_weight": 0.0},
            "sampling": {"constrain": True},
            **changes,
        }
    )


def careful() -> Config:
    """The same, with the settings of a pretrained model."""
    trainer = careless().trainer
    return careless(
        loss={"kl_weight": 0.0, "entropy_floor": 0.9, "entropy_floor_end": 0.03},
        trainer={
            "training": {"steps": STEPS},
            "optimizer": {"lr": trainer.optimizer.lr, "warmup_steps": 1},
            "kl_target": 0.05,
        },
    )


async def rows_of(config: Config, folder: Path) -> list[dict[str, Any]]:
    return await SmallRun(config, folder, pool_class=SafeWordPool).run(STEPS)


async def test_a_policy_that_takes_the_safe_action_always_is_named_within_ten_steps(tmp_path: Path) -> None:
    rows = await rows_of(careless(), tmp_path)

    began = next(row["step"] for row in rows if row["top_action_share"] >= 0.97)
    named = next(row for row in rows if row.get("collapse") == "one action")
    assert named["step"] - began < 10
    assert "loss.entropy_floor" in named["warning"]


async def test_a_run_may_stop_at_a_collapse(tmp_path: Path) -> None:
    with pytest.raises(Collapsed, match=r"step \d+: the policy"):
        await rows_of(careless(on_collapse="stop"), tmp_path)


async def test_a_run_may_go_back_to_the_weights_before_a_collapse(tmp_path: Path) -> None:
    rows = await rows_of(careless(on_collapse="rollback"), tmp_path)

    back = next(number for number, row in enumerate(rows) if row.get("rolled_back"))
    assert rows[back - 1]["collapse"]
    assert min(row["top_action_share"] for row in rows[back + 1 : back + 4]) < 0.9
    assert rows[back + 1]["learning_rate"] < rows[back - 1]["learning_rate"]


async def test_a_floor_of_the_entropy_and_a_budget_of_steps_let_it_learn_the_right_action(tmp_path: Path) -> None:
    config = careful()
    rows = await rows_of(config, tmp_path)
    target = config.trainer.kl_target
    assert target is not None

    assert sum(row["reward"] for row in rows[-5:]) / 5 > 0.5
    assert min(row["action_entropy"] for row in rows[:20]) > 0.05
    assert max(row["action_entropy"] for row in rows[10:30]) > 0.4  # what fell below the floor has come back
    assert max(row["step_kl"] for row in rows) < 4 * target
    assert not any("collapse" in row for row in rows)


async def test_with_the_masks_the_trainer_agrees_with_the_generator(tmp_path: Path) -> None:
    rows = await rows_of(careless(off_by_n=0), tmp_path)

    assert max(row["mismatch_kl"] for row in rows if "mismatch_kl" in row) < 1e-6
    assert all(row["episodes/unparseable"] == 0 for row in rows)
