"""Evaluations of models by harnesses of other projects, such as Inspect AI."""

from openenv.core.evals.base import EvalHarness
from openenv.core.evals.inspect_harness import InspectAIHarness
from openenv.core.evals.types import EvalConfig, EvalResult

__all__ = ["EvalConfig", "EvalHarness", "EvalResult", "InspectAIHarness"]
