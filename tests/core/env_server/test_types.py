"""Messages: declared classes, in pydantic's idiom or the dataclass idiom, validated either way."""

from dataclasses import dataclass, fields

import pytest
from pydantic import ValidationError

from openenv.core import Action, Observation, State


@dataclass
class MoveAction(Action):
    x: int
    y: int


@dataclass
class BoardObservation(Observation):
    board: list[float]
    done: bool
    reward: float


@dataclass
class GameState(State):
    episode_id: str
    step_count: int


class PydanticObservation(Observation):
    board: list[float]
    phase: str = "play"


def test_a_dataclass_lists_the_inherited_fields_first():
    assert [f.name for f in fields(BoardObservation)] == ["done", "reward", "metadata", "board"]
    assert [f.name for f in fields(MoveAction)] == ["metadata", "x", "y"]


def test_a_pydantic_class_lists_its_fields_in_the_same_order():
    assert [f.name for f in fields(PydanticObservation)] == ["done", "reward", "metadata", "board", "phase"]
    assert [f.type for f in fields(PydanticObservation)][-2:] == [list[float], str]


def test_a_dataclass_is_still_validated():
    with pytest.raises(ValidationError, match=r"x\n.*valid integer"):
        MoveAction(x="left", y=1)


def test_a_dataclass_refuses_unknown_fields():
    with pytest.raises(ValidationError, match=r"z\n.*Extra inputs are not permitted"):
        MoveAction(x=1, y=2, z=3)


def test_a_dataclass_takes_its_own_fields_by_position():
    assert MoveAction(1, 2) == MoveAction(x=1, y=2)
    with pytest.raises(TypeError, match="at most 2 positional arguments"):
        MoveAction(1, 2, 3)


def test_a_pydantic_message_takes_keywords_only():
    with pytest.raises(TypeError, match="keyword arguments only"):
        PydanticObservation([1.0])


def test_assignment_is_validated():
    state = GameState(episode_id="e", step_count=0)
    with pytest.raises(ValidationError, match="step_count"):
        state.step_count = "many"


def test_an_observation_made_without_validation_equals_a_validated_one_and_shares_nothing():
    fields = {"done": False, "reward": 1.0, "metadata": {"why": "so"}, "board": [1.0, 2.0], "phase": "play"}
    trusted, other = (PydanticObservation.construct_unchecked(fields | {"metadata": {}, "board": []}) for _ in range(2))
    assert PydanticObservation.construct_unchecked(dict(fields)) == PydanticObservation(**fields)
    assert PydanticObservation.construct_unchecked(dict(fields)).model_dump(exclude_unset=True) == fields

    trusted.phase = "end"
    changed = trusted.model_copy(update={"unknown": 1})
    assert changed.model_fields_set == {*fields, "unknown"}
    trusted.model_fields_set.discard("reward")
    assert other.model_fields_set == set(fields)
    assert other.phase == "play"
    with pytest.raises(ValidationError):
        trusted.board = "none"


def test_a_dataclass_round_trips_through_json():
    observation = BoardObservation(board=[1.0, 2.0], done=True, reward=0.5)
    assert BoardObservation.model_validate_json(observation.model_dump_json()) == observation


def test_state_takes_further_fields():
    assert State(score=3).score == 3
