"""Captures the calls of agents' programs as the tokens of an engine such as vLLM, for trainers such as TRL's."""

from openenv.agents.capture.contract import to_trace_entries, to_training_trace, to_turn_records
from openenv.agents.capture.graph import RolloutGraph, TurnNode
from openenv.agents.capture.runner import CaptureServer
from openenv.agents.capture.upstream import InferenceClient, UpstreamError

__all__ = [
    "CaptureServer",
    "InferenceClient",
    "RolloutGraph",
    "TurnNode",
    "UpstreamError",
    "to_trace_entries",
    "to_training_trace",
    "to_turn_records",
]
