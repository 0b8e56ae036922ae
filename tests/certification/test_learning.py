"""The proof of learning, with a training file of its own."""

import math
from pathlib import Path

import pytest

from openenv.auto.environment import named_environment
from openenv.certification.learning import _has_played, learning
from openenv.certification.subject import KnownPlay, Subject
from openenv.rl.reports.results import PlayerResult

PARITY = '''
from random import Random
from typing import Literal

from openenv import Action, Environment, Observation, State


class Name(Action):
    light: Literal["red", "green"]


class Light(Observation):
    light: str


class Lights(Environment[Name, Light, State]):
    """Name the light."""

    execution = "inline"
    success_return = 1.0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.light = Random(seed).choice(["red", "green"])
        return Light(light=self.light)

    def step(self, action, timeout_s=None, **kwargs):
        return Light(light="", reward=WORTH * float(action.light == self.light), done=True)

    @property
    def state(self):
        return State()
'''


@pytest.mark.parametrize(("worth", "status", "risen"), [(1.0, "pass", [True, True]), (0.0, "fail", [])])
@pytest.mark.process
def test_a_tiny_model_learns_to_name_a_light_where_that_is_rewarded(
    tmp_path: Path, worth: float, status: str, risen: list[bool]
) -> None:
    folder = tmp_path / f"lights{worth:.0f}"
    (folder / "server").mkdir(parents=True)
    (folder / "openenv.yaml").write_text("name: lights\n")
    (folder / "server/environment.py").write_text(PARITY.replace("WORTH", str(worth)))
    application = (
        f"from openenv import create_app\nfrom {folder.name}.server.environment import Light, Lights, Name\n\n"
    )
    (folder / "server/app.py").write_text(f"{application}app = create_app(Lights, Name, Light)\n")
    (folder / "train.yaml").write_text(
        "env: {name: ./lights}\npretrain: {max_decisions: 500, steps: 30, batch_size: 32}\n"
        "trainer: {training: {steps: 15}, optimizer: {lr: 0.002}}\ngroups_in_flight: 16\n"
    )
    named, shown = named_environment(str(folder)), list[str]()
    with named.served() as served:
        subject = Subject(named=named, served=served, known=KnownPlay(), seed=3)
        proof = learning(subject, 1.0, 2, shown.append)

    assert proof.result.status == status, proof.result.seen
    seeds = proof.figures.get("seeds", [])
    assert [one["after"] > one["before"] for one in seeds] == risen
    assert (proof.figures.get("rise", 0.0) > proof.figures.get("half_width", 0.0)) == any(risen)
    assert [len(one["curve"]) for one in seeds] == [15] * len(risen)
    assert ("all 512 returns of random play are 0" in proof.result.seen) == (worth == 0.0)
    assert any("seed 2 of 2: train" in one for one in shown) == (worth == 1.0)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("mean", "interval", "has_played"),
    [(0.5, (0.4, 0.6), True), (math.nan, (-math.inf, math.inf), False), (math.nan, None, False)],
)
def test_a_player_whose_games_all_ended_with_the_time_has_no_mean(
    mean: float, interval: tuple[float, float] | None, has_played: bool
) -> None:
    result = PlayerResult(name="after", role="after", win_rate=math.nan, mean_return=mean, return_interval=interval)

    assert _has_played(result) == has_played
