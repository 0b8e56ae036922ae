"""A session as one document: its sequences, each with what it is, its calls, and what checks have found."""

from typing import Any

from openenv.agents.capture.graph import RolloutGraph, TrainingSequence, TurnNode
from openenv.agents.capture.sessions import Session, rollout_type_for
from openenv.agents.capture.validate import check_rollout, check_sequence

AGENT, AUXILIARY, DISCARDED = "agent", "auxiliary", "discarded"
"""The agent's own calls, those for a title or a summary, and those that were made again."""


def export_session(
    session: Session,
    *,
    include_discarded: bool = False,
    include_messages: bool = False,
    capture_level: str = "tokens",
) -> dict[str, Any]:
    """The document of a session, which `to_training_trace` takes.

    Args:
        include_discarded: with the sequences that end with a call that was made again.
        include_messages: each call with its messages.
        capture_level: what the engine returned. Below tokens nothing is trainable.
    """
    graph, purpose = session.graph, session.purpose if session.purpose != "train" else "auto"
    is_trained = rollout_type_for(purpose, capture_level) == "train"
    report = check_rollout(graph, capture_level=capture_level, budget_stop_count=session.budget_stop_count)
    sequences = graph.sequences()
    discarded = {node.node_id for node in graph.discarded_nodes()}
    has_tools = any(
        graph.get(one).n_tools for sequence in sequences for one in sequence.node_ids if one not in discarded
    )
    rows = [_row(graph, sequence, discarded, has_tools=has_tools, is_trained=is_trained) for sequence in sequences]
    rows = [row for row in rows if include_discarded or row["role"] != DISCARDED]
    trainable = [row for row in rows if row["trainable"]]
    return {
        "session_id": session.session_id,
        "metadata": session.metadata,
        "budget_stop_count": session.budget_stop_count,
        "turns": [_turn(graph, node, discarded, include_messages) for node in graph.nodes()],
        "stats": {
            **graph.stats(),
            "n_sequences": len(rows),
            "n_trainable_sequences": len(trainable),
            "n_trainable_tokens": sum(row["n_trainable"] for row in trainable),
        },
        "sequences": rows,
        "validation": [*map(str, report.findings), *session.findings],
        "trainable": bool(trainable) and report.ok,
        "capture_level": capture_level,
        "rollout_type": "train" if is_trained else "eval",
    }


def summarise(document: dict[str, Any]) -> str:
    """The document in a few lines of text."""
    stats = document["stats"]
    rows = [
        f"{row['role']}: {row['n_turns']} calls, {len(row['input_ids'])} tokens, {row['n_trainable']} of them trained"
        for row in document["sequences"]
    ]
    head = f"session {document['session_id']}: {document['rollout_type']}, {stats['n_turns']} calls in "
    head += f"{stats['n_roots']} conversations, {stats['n_trainable_tokens']} tokens to train on"
    return "\n".join([head, *rows, *document["validation"]])


def _row(
    graph: RolloutGraph, sequence: TrainingSequence, discarded: set[str], *, has_tools: bool, is_trained: bool
) -> dict[str, Any]:
    """A sequence. If some have tools, those without are not the agent's own."""
    is_agents = any(graph.get(one).n_tools for one in sequence.node_ids) if has_tools else True
    role = DISCARDED if sequence.node_ids[-1] in discarded else AGENT if is_agents else AUXILIARY
    report = check_sequence(sequence) if is_trained else None
    return {
        **vars(sequence),
        "role": role,
        "n_trainable": sequence.n_trainable if is_trained else 0,
        "turn_lengths": sequence.turn_lengths(),
        "loss_mask": sequence.loss_mask if is_trained else [0] * len(sequence.input_ids),
        "trainable": role == AGENT and report is not None and report.ok,
        "validation": [] if report is None else [*map(str, report.findings)],
    }


def _turn(graph: RolloutGraph, node: TurnNode, discarded: set[str], with_messages: bool) -> dict[str, Any]:
    names: tuple[str, ...] = ("node_id", "index", "n_tools", "finish_reason", "harness_session_id", "sampling_params")
    names += ("requested_sampling_params", "sampled_logprobs")
    names += ("request_messages", "request_tools", "response_message") if with_messages else ()
    return {name: getattr(node, name) for name in names} | {
        "root_id": graph.root_of(node.node_id),
        "n_sampled": len(node.sampled_ids),
        "n_prompt": len(node.prompt_ids),
        "discarded": node.node_id in discarded,
    }
