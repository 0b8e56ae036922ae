"""Checks what was captured before it is trained: of a call, of a sequence, and of a whole episode."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openenv.agents.capture.graph import RolloutGraph, TrainingSequence
from openenv.agents.training import TrainingTurn

FATAL, WARN, INFO = "FATAL", "WARN", "INFO"
"""What must not be trained, what may be but should be understood, and what is only good to know."""


@dataclass
class Finding:
    """One thing that a check has found."""

    level: str
    code: str
    detail: str

    def __str__(self) -> str:
        return f"[{self.level}] {self.code}: {self.detail}"


@dataclass
class Report:
    """What a check has found."""

    findings: list[Finding] = field(default_factory=list)
    aux_node_ids: list[str] = field(default_factory=list)
    """Calls that are not the agent's own steps, where a caller knows them."""

    def add(self, level: str, code: str, detail: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(level, code, detail))

    @property
    def fatal(self) -> list[Finding]:
        """Those of the level FATAL."""
        return [finding for finding in self.findings if finding.level == FATAL]

    @property
    def ok(self) -> bool:
        """Whether none is fatal."""
        return not self.fatal

    def merge(self, other: "Report") -> "Report":
        """Add what another check has found. Returns this report."""
        self.findings += other.findings
        return self

    def text(self) -> str:
        """A line for each finding."""
        return "\n".join(map(str, self.findings)) or "nothing was found"


def check_turn(
    prompt_ids: Sequence[Any],
    sampled_ids: Sequence[Any],
    logprobs: Sequence[Any] | None,
    *,
    finish_reason: str | None = None,
    index: int = 0,
) -> Report:
    """Check a call of an engine that returns tokens."""
    report, call = Report(), f"call {index}"
    if not all(type(token) is int and token >= 0 for token in (*prompt_ids, *sampled_ids)):
        report.add(FATAL, "invalid_token_id", f"{call}: an id of a token is no integer from 0")
    if not prompt_ids:
        report.add(FATAL, "no_prompt_ids", f"{call}: the engine returned no ids of the prompt's tokens")
    if not sampled_ids:
        report.add(WARN, "no_sampled_ids", f"{call}: the engine returned no tokens of a reply ({finish_reason})")
    if finish_reason == "length":
        report.add(WARN, "truncated_turn", f"{call}: the limit of {len(sampled_ids)} tokens ended the reply")
    if logprobs is None:
        if sampled_ids:
            report.add(FATAL, "no_logprobs", f"{call}: {len(sampled_ids)} sampled tokens have no log-probabilities")
        return report
    if len(logprobs) != len(sampled_ids):
        counts = f"{len(logprobs)} log-probabilities for {len(sampled_ids)} sampled tokens"
        report.add(FATAL, "logprob_misalign", f"{call}: {counts}")
    if not all(type(value) in (int, float) and math.isfinite(value) for value in logprobs):
        report.add(FATAL, "invalid_logprob", f"{call}: a log-probability is no finite number")
    elif any(value > 0 for value in logprobs):
        report.add(FATAL, "positive_logprob", f"{call}: a log-probability is above 0")
    return report


def check_turn_eval(response_message: Any, *, finish_reason: str | None = None, index: int = 0) -> Report:
    """Check a call of an engine that returns text alone."""
    report, message = Report(), response_message if isinstance(response_message, dict) else {}
    if not str(message.get("content") or "").strip() and not message.get("tool_calls"):
        report.add(WARN, "empty_completion", f"call {index}: the reply has no text and calls no tool ({finish_reason})")
    if finish_reason == "length":
        report.add(INFO, "truncated_turn", f"call {index}: the limit of tokens ended the reply")
    return report


def validate_training_turn(
    prompt_ids: Sequence[int], sampled_ids: Sequence[int], logprobs: Sequence[float] | None, loss_mask: Sequence[int]
) -> None:
    """Raise ValueError for a call that cannot be trained, as TrainingTurn does."""
    TrainingTurn(
        node_id="checked", prompt_token_ids=list(prompt_ids), completion_token_ids=list(sampled_ids),
        per_token_logps=list(logprobs or ()), loss_mask=list(loss_mask),
    )  # fmt: skip


def check_sequence(seq: TrainingSequence, *, min_trainable: int = 1) -> Report:
    """Check a sequence as a trainer takes it."""
    report, start = Report(), seq.prompt_len
    try:
        validate_training_turn(seq.input_ids[:start], seq.input_ids[start:], seq.logprobs[start:], seq.loss_mask)
    except ValueError as error:
        report.add(FATAL, "invalid_training_sequence", str(error))
        return report
    if seq.n_trainable < min_trainable:
        report.add(FATAL, "nothing_trainable", f"{seq.n_trainable} of {len(seq.input_ids)} tokens are trained")
    pairs = list(zip(seq.loss_mask, seq.logprobs, strict=False))
    if len(seq.logprobs) != len(seq.input_ids) or any(value for mask, value in pairs if not mask):
        report.add(FATAL, "masked_has_logprob", "tokens of the context have log-probabilities other than 0")
    if certain := pairs.count((1, 0.0)):
        report.add(INFO, "certain_tokens", f"{certain} of {seq.n_trainable} trained tokens had a probability of 1")
    return report


def check_rollout(
    graph: RolloutGraph,
    *,
    expect_single_root: bool = False,
    capture_level: str = "tokens",
    budget_stop_count: int = 0,
) -> Report:
    """Check how the calls of an episode hang together. budget_stop_count: calls that a limit has answered."""
    report, stats = Report(), graph.stats()
    turns, roots = stats["n_turns"], stats["n_roots"]
    if not turns:
        report.add(FATAL, "no_turns", "the program has not called its model: check its base URL, key and model")
        return report
    if expect_single_root and roots != 1:
        report.add(FATAL, "root_count", f"{roots} conversations where one is expected")
    elif roots == turns > 1:
        level, code = (WARN, "per_turn_capture_only") if capture_level == "tokens" else (INFO, "per_turn_trace_only")
        report.add(level, code, f"none of the {turns} calls continues another: each is a sequence of its own")
    elif roots > 1:
        report.add(WARN, "multiple_roots", f"the {turns} calls are {roots} conversations")
    if turns == 1 and budget_stop_count <= 0:
        report.add(WARN, "degenerate_rollout", "the program has called its model once")
    if stats["n_discarded"]:
        report.add(WARN, "discarded_turns", f"{stats['n_discarded']} calls were made again, and are not trained")
    if stats["n_forks"]:
        report.add(INFO, "forks", f"several calls continue each of {stats['n_forks']} calls")
    return report


def check_upstream_response(payload: dict[str, Any]) -> Report:
    """Check that a response of Chat Completions has what is captured."""
    report, choices = Report(), payload.get("choices")
    if not choices:
        report.add(FATAL, "no_choices", "the response has no choices")
        return report
    content = (choices[0].get("logprobs") or {}).get("content") or []
    ids = choices[0].get("token_ids") or []
    if not payload.get("prompt_token_ids"):
        report.add(FATAL, "no_prompt_token_ids", "no prompt_token_ids: the engine ignores return_token_ids")
    if not ids:
        report.add(FATAL, "no_completion_token_ids", "no token_ids of the reply: the engine ignores return_token_ids")
    if not content:
        report.add(FATAL, "no_logprobs", "no logprobs.content: the engine ignores logprobs")
    elif ids and len(ids) != len(content):
        report.add(FATAL, "logprob_misalign", f"{len(content)} log-probabilities for {len(ids)} tokens")
    elif not str(content[0].get("token", "")).startswith("token_id:"):
        remedy = "start it with --return-tokens-as-token-ids and --logprobs-mode processed_logprobs"
        report.add(WARN, "token_strings", f"the engine's log-probabilities may be those before temperature: {remedy}")
    return report
