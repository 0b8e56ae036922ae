"""What an evaluation is given, and what it returns."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class EvalConfig(BaseModel):
    """All that an evaluation depends on, so that it can be repeated."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    harness_name: str
    """Name of the class of the harness."""
    harness_version: str
    library_versions: dict[str, str]
    dataset: str
    eval_parameters: dict[str, Any]


class EvalResult(BaseModel):
    """The scores of an evaluation, with the configuration that they belong to."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    config: EvalConfig
    scores: dict[str, Any]
