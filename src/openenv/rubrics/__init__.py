"""Rewards made of parts: a rubric scores an action and the observation that followed it."""

from openenv.core.rubric import Rubric
from openenv.rubrics.combinators import Gate, RubricDict, RubricList, Sequential, WeightedSum
from openenv.rubrics.llm_judge import LLMJudge
from openenv.rubrics.trajectory import ExponentialDiscountingTrajectoryRubric, TrajectoryRubric

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
