"""Tokens of an agent's requests are taken for training only where they fit together."""

import pytest
from pydantic import ValidationError

from openenv.agents import (
    HarnessClientMessage,
    HarnessConfig,
    HarnessEvent,
    TrainingTrace,
    TrainingTurn,
    events_to_metadata,
)

pytestmark = pytest.mark.finding("every public name of the published package exists here")

TURN = {
    "node_id": "n",
    "prompt_token_ids": [1, 2],
    "completion_token_ids": [3],
    "per_token_logps": [-0.5],
    "loss_mask": [0, 0, 1],
}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"per_token_logps": []}, "0 entries for 1"),
        ({"loss_mask": [0, 1]}, "2 entries for 3 tokens"),
        ({"loss_mask": [0, 0, 2]}, "0 and 1 only"),
        ({"loss_mask": [1, 0, 1]}, "0 for the prompt"),
        ({"per_token_logps": [0.5]}, "at most 0"),
        ({"per_token_logps": [float("nan")]}, "finite"),
        ({"prompt_token_ids": [-1, 2]}, "negative"),
        ({"prompt_token_ids": [], "loss_mask": [1]}, "prompt_token_ids is empty"),
        ({"node_id": ""}, "at least 1 character"),
        ({"unknown": 1}, "Extra inputs"),
    ],
)
def test_a_turn_that_does_not_fit_together_is_refused(change, error):
    with pytest.raises(ValidationError, match=error):
        TrainingTurn(**{**TURN, **change})


def test_a_trace_goes_through_its_entries_unchanged():
    trace = TrainingTrace(turns=[TrainingTurn(**TURN), TrainingTurn(**{**TURN, "node_id": "m"})])
    entries = trace.to_trace_entries()

    assert [entry["metadata"]["node_id"] for entry in entries] == ["n", "m"]
    assert TrainingTrace.from_entries(entries).to_trace_entries() == entries
    with pytest.raises(KeyError, match="loss_mask"):
        TrainingTrace.from_entries([{key: value for key, value in entries[0].items() if key != "loss_mask"}])


def test_one_call_is_in_a_trace_once():
    with pytest.raises(ValidationError, match="same node_id"):
        TrainingTrace(turns=[TrainingTurn(**TURN), TrainingTurn(**TURN)])


def test_a_harness_needs_a_command():
    with pytest.raises(ValidationError, match="command"):
        HarnessConfig(name="x", command=[])


def test_events_are_json_values_in_metadata():
    event = HarnessEvent(type="tool_call", timestamp=1.0, data={"tool_name": "read"})

    assert events_to_metadata([event]) == [{"type": "tool_call", "timestamp": 1.0, "data": {"tool_name": "read"}}]


def test_a_clients_message_may_have_further_fields():
    message = HarnessClientMessage.model_validate({"type": "message", "content": "hello", "id": 7})

    assert message.content == "hello"
