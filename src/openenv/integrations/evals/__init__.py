"""Evaluations of models by harnesses of other projects, such as Inspect AI."""

from openenv.integrations.evals.base import EvalHarness
from openenv.integrations.evals.inspect_harness import InspectAIHarness
from openenv.integrations.evals.types import EvalConfig, EvalResult

__all__ = ["EvalConfig", "EvalHarness", "EvalResult", "InspectAIHarness"]
