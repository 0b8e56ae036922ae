"""Records the calls that an agent's program makes of its model in one episode, as the tokens that were sampled.

A call continues an earlier one where its messages begin with those of that call and its reply. Its prompt is then the
earlier call's tokens, unchanged, and what the chat template writes after them. All other calls (of sub-agents, after a
compaction, with a rewritten history) begin a sequence of their own. No reply is ever encoded again.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openenv.agents.endpoint.requests import Message, meaning
from openenv.formats.json_text import json_text
from openenv.rl.algorithm.segment import Segment

CallEnd = Literal["answered", "refused", "failed", "lost", "stopped"]
"""lost: the program, or its connection, was gone before it had the reply. stopped: the episode's time was over."""


@dataclass(slots=True)
class Call:
    """A call, and what became of it."""

    number: int
    history: bytes
    """Identifies its messages and tools."""
    parent: "Call | None"
    """The call whose tokens its prompt begins with."""
    end: CallEnd | None = None
    """None: it is open."""
    reason: str = ""
    """Why it was refused, or has failed."""
    replies: tuple[Segment, ...] = ()
    """Its prompt with each of its replies."""
    is_retried: bool = False
    """Whether the program's client has not received its answer, and has made it again."""
    is_late: bool = False
    """Whether the episode had ended before: its replies have earned nothing."""

    @property
    def is_trained(self) -> bool:
        """Whether its replies are part of what is trained."""
        return not (self.is_retried or self.is_late)


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply that a later call may continue."""

    call: Call
    segment: Segment


class Capture:
    """The calls of one episode. Not thread-safe: the endpoint's event loop uses it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._replies: dict[bytes, _Reply] = {}
        """By the history that they end."""

    def open(
        self, messages: Sequence[Message], tools: Sequence[Message], *, is_retry: bool = False, is_late: bool = False
    ) -> tuple[Call, int]:
        """Record a call as it comes in. Returns it, with the number of the messages that its prompt has already.

        is_retry: whether it repeats one whose answer has not arrived. is_late: whether the episode has ended.
        """
        histories = list(_histories(messages, tools))
        if is_retry:
            same = (call for call in reversed(self.calls) if call.history == histories[-1] and not call.is_retried)
            for call in itertools.islice(same, 1):
                call.is_retried = True
        known = (place for place in range(len(messages), 0, -1) if histories[place] in self._replies)
        place = next(known, 0)
        parent = self._replies[histories[place]].call if place else None
        call = Call(len(self.calls), histories[-1], parent, is_late=is_late)
        self.calls.append(call)
        return call, place

    def before(self, messages: Sequence[Message], tools: Sequence[Message]) -> Segment | None:
        """The tokens of a conversation that ends with a reply of the model; None if it has not been captured."""
        *_, history = _histories(messages, tools)
        known = self._replies.get(history)
        return None if known is None else known.segment

    def answered(
        self,
        call: Call,
        messages: Sequence[Message],
        tools: Sequence[Message],
        replies: Sequence[tuple[Message, Segment]],
    ) -> None:
        """Record the replies to a call: each as a message, and as its prompt with the sampled tokens."""
        call.end = "answered"
        call.replies = tuple(segment for _, segment in replies)
        for message, segment in replies:
            *_, history = _histories([*messages, message], tools)
            self._replies[history] = _Reply(call, segment)

    def failed(self, call: Call, end: CallEnd, reason: str) -> None:
        """Record that a call has no reply."""
        call.end, call.reason = end, reason

    @property
    def invalid_because(self) -> str | None:
        """Why the episode must not be trained on; None if all that was sampled is known."""
        for call in self.calls:
            if call.is_retried:
                continue
            if call.end is None:
                return f"call {call.number} was still open as the episode ended"
            if call.end in ("lost", "failed"):
                return f"call {call.number} was {call.end}: {call.reason}"
        return None

    def segments(self) -> list[Segment]:
        """The sequences to train on. Each token that counts is sampled in exactly one of them.

        The first call that continues another makes its sequence longer; where several do, the others have its tokens
        as their prompt.
        """
        sequences: list[Segment] = []
        ends: dict[int, list[Segment]] = {}
        """The sequences whose last reply is one of a call, by its number."""
        for call in self.calls:
            if not call.is_trained:
                continue
            for reply in call.replies:
                sequence = self._continued(ends, call, reply)
                if sequence is None:
                    sequence = _copy_of(reply)
                    sequences.append(sequence)
                ends.setdefault(call.number, []).append(sequence)
        return sequences

    def _continued(self, ends: dict[int, list[Segment]], call: Call, reply: Segment) -> Segment | None:
        """The sequence that a reply makes longer; None where it begins another one."""
        candidates = ends.get(call.parent.number, []) if call.parent is not None else []
        for sequence in candidates:
            if sequence.extend(reply):
                candidates.remove(sequence)
                return sequence
        return None

    def ledger(self, not_trained: str = "") -> Counter[str]:
        """How many calls ended how, and how many sampled tokens are trained and not trained, by the reason.

        not_trained: why none of the episode's tokens is trained; empty where those in sequences are.
        """
        tokens = f"tokens not trained: {not_trained}" if not_trained else "tokens trained"
        counts = Counter[str]()
        for call in self.calls:
            counts[f"calls {call.end or 'open'}{', made again' if call.is_retried else ''}"] += 1
            sampled = sum(int(reply.sampled.sum()) for reply in call.replies)
            left_out = "not received" if call.is_retried else "after the end" if call.is_late else ""
            counts[f"tokens not trained: {left_out}" if left_out else tokens] += sampled
        return counts


def _copy_of(segment: Segment) -> Segment:
    """A segment that may grow, while the one of its call stays."""
    return Segment(
        segment.token_ids, segment.sampled, segment.logprobs, segment.versions, segment.images, segment.masks
    )


def _histories(messages: Sequence[Message], tools: Sequence[Message]) -> Iterator[bytes]:
    """What identifies the tools alone, and with each message more."""
    start = _digest(b"", [dict(tool) for tool in tools])
    return itertools.accumulate(messages, lambda known, message: _digest(known, meaning(message)), initial=start)


def _digest(known: bytes, value: Any) -> bytes:
    return hashlib.blake2b(known + json_text(value, sort_keys=True).encode(), digest_size=16).digest()
