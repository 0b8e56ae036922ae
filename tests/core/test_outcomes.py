"""The outcome of an episode follows from the return that its first observation declares as a success."""

from typing import Any

import pytest

from openenv.core.env_server.types import Observation
from openenv.core.outcomes import ANY_POSITIVE, declared_success, outcome_of


def test_an_outcome_follows_from_the_declared_return() -> None:
    assert [outcome_of(value, 10.0) for value in (10.0, 9.5, 0.0, -1.0)] == ["won", "lost", "lost", "lost"]
    assert [outcome_of(value, ANY_POSITIVE) for value in (0.5, 0.0, -1.0)] == ["won", "push", "lost"]
    assert outcome_of(76.0, None) == "ended"


@pytest.mark.parametrize("declared", [None, "10", True, float("nan"), [1]])
def test_what_is_no_return_declares_nothing(declared: Any) -> None:
    assert declared_success(Observation(metadata={"success_return": declared})) is None
