"""The parts of a reward, and what changes observations."""

from openenv.core.env_server.base_transforms import CompositeTransform
from openenv.core.env_server.interfaces import Transform
from openenv.core.rubric import Rubric
from openenv.rubrics.combinators import WeightedSum
from openenv.rubrics.trajectory import ExponentialDiscountingTrajectoryRubric


class Runs(Rubric):
    """1 for a program that ends well."""

    def forward(self, action, observation) -> float:
        return float(observation.exit_code == 0)


class Prints(Rubric):
    """1 for a program that prints the text."""

    def __init__(self, text: str):
        super().__init__()
        self.text = text

    def forward(self, action, observation) -> float:
        return float(self.text in observation.stdout)


class EndsWell(ExponentialDiscountingTrajectoryRubric):
    """1 for an episode whose last program ends well."""

    def score_trajectory(self, trajectory) -> float:
        return float(trajectory[-1][1].exit_code == 0) if trajectory else 0.0


class Safety(Transform):
    """Punishes programs that import os."""

    def __call__(self, observation):
        if "import os" in observation.metadata.get("last_code", ""):
            observation.reward = -1.0
            observation.metadata["safety_violation"] = "import os"
        return observation


class Short(Transform):
    """Shortens what a program printed."""

    def __call__(self, observation):
        observation.stdout = observation.stdout[:40]
        return observation


def transforms() -> CompositeTransform:
    return CompositeTransform([Safety(), Short()])


def rubric() -> WeightedSum:
    return WeightedSum([Runs(), Prints("42")], [0.25, 0.75])
