"""Rewards made of parts: a rubric scores an action and the observation that followed it."""

from openenv.core.rubrics.base import Rubric
from openenv.core.rubrics.containers import Gate, RubricDict, RubricList, Sequential, WeightedSum
from openenv.core.rubrics.llm_judge import LLMJudge
from openenv.core.rubrics.trajectory import ExponentialDiscountingTrajectoryRubric, TrajectoryRubric

__all__ = [
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "LLMJudge",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Sequential",
    "TrajectoryRubric",
    "WeightedSum",
]
