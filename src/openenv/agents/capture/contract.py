"""What a trainer takes of captured calls: the engine's own tokens, with log-probabilities and a mask."""

from typing import Any

from openenv.agents.capture.export import AGENT
from openenv.agents.capture.graph import RolloutGraph, TurnNode
from openenv.agents.capture.validate import FATAL, check_turn
from openenv.agents.capture.validate import validate_training_turn as validate_training_turn
from openenv.agents.training import TrainingTrace

BUDGET_STOP_MESSAGE = "The limit of model calls is reached: stop here."
"""The reply to calls beyond `max_model_calls`. The model has not said it, and it is not captured."""


def to_training_trace(graph: RolloutGraph, document: dict[str, Any]) -> TrainingTrace:
    """The agent's calls, each once, in their order. document: of `export_session`.

    Raises ValueError for an episode that is no training's, that a check has found a fatal fault in, or with a call
    whose tokens or log-probabilities are missing.
    """
    faults = [finding for finding in document.get("validation", ()) if finding.startswith(f"[{FATAL}]")]
    if faults:
        raise ValueError(f"the episode cannot be trained: {'; '.join(faults)}")
    nodes = _agents_nodes(graph, document)
    unusable = [f"call {node.index}" for node in nodes if not _is_usable(node)]
    if unusable:
        raise ValueError(f"tokens or log-probabilities are missing: {', '.join(unusable)}")
    return TrainingTrace.from_entries(to_trace_entries(graph, document))


def to_trace_entries(graph: RolloutGraph, document: dict[str, Any]) -> list[dict[str, Any]]:
    """The agent's calls that have tokens and log-probabilities, each as a TraceEntry without a reward.

    `loss_mask` is that of the document's sequences. Raises ValueError for an episode that is no training's.
    """
    masks = _masks(graph, document)
    return [
        {
            "request": {"messages": node.request_messages, "tools": node.request_tools},
            "response": {"choices": [{"message": node.response_message, "finish_reason": node.finish_reason}]},
            "prompt_token_ids": node.prompt_ids,
            "completion_token_ids": node.sampled_ids,
            "per_token_logps": node.sampled_logprobs,
            "loss_mask": [0] * len(node.prompt_ids) + masks[node.node_id],
            "metadata": {
                name: getattr(node, name)
                for name in ("node_id", "index", "model", "n_tools", "harness_session_id", "sampling_params",
                             "requested_sampling_params")
            },
        }
        for node in _agents_nodes(graph, document)
        if _is_usable(node)
    ]  # fmt: skip


def to_turn_records(graph: RolloutGraph, document: dict[str, Any]) -> list[tuple[list[int], list[int], list[float]]]:
    """Prompt, reply and log-probabilities of each call that is trained.

    Raises ValueError for a reply that is trained in parts, which this form cannot express, and for an episode that is
    no training's.
    """
    entries = to_trace_entries(graph, document)
    for entry in entries:
        mask = entry["loss_mask"][len(entry["prompt_token_ids"]) :]
        if any(mask) and not all(mask):
            raise ValueError(f"call {entry['metadata']['index']} is trained in parts: use to_trace_entries")
    names = ("prompt_token_ids", "completion_token_ids", "per_token_logps")
    return [tuple(entry[name] for name in names) for entry in entries if any(entry["loss_mask"])]


def _agents_nodes(graph: RolloutGraph, document: dict[str, Any]) -> list[TurnNode]:
    if document.get("rollout_type", "train") != "train":
        level = document.get("capture_level")
        raise ValueError(f"the episode is one of an evaluation (capture_level={level!r}): it has nothing to train on")
    ids = {one for row in document["sequences"] if row["role"] == AGENT for one in row["node_ids"]}
    return [node for node in graph.nodes() if node.node_id in ids]


def _is_usable(node: TurnNode) -> bool:
    return bool(node.sampled_ids) and check_turn(node.prompt_ids, node.sampled_ids, node.sampled_logprobs).ok


def _masks(graph: RolloutGraph, document: dict[str, Any]) -> dict[str, list[int]]:
    """The mask of each reply. Sequences that share a call must agree on it."""
    masks: dict[str, list[int]] = {}
    for row in document["sequences"]:
        mask = row.get("loss_mask") or graph.sequence_for(row["node_ids"][-1]).loss_mask
        for node in map(graph.get, row["node_ids"] if row["role"] == AGENT else ()):
            start = len(node.prompt_ids)
            part = mask[start : start + len(node.sampled_ids)]
            if len(part) != len(node.sampled_ids) or masks.setdefault(node.node_id, part) != part:
                raise ValueError(f"the sequences have no one loss_mask for call {node.index}")
    return masks
