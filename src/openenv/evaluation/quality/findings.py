"""What a check found out."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    status: Status
    """`fail`: the environment breaks the specification. `warn`: it keeps it, and somebody should look. `skip`: the
    check does not apply, or could not be done, for the reason that `seen` tells."""
    seen: str
    """What was seen, with figures."""
    remedy: str = ""
    """What its author can do about it; empty when there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """A finding with the name of its check and the time that it took."""

    check: str
    finding: Finding
    took_s: float


def passed(seen: str) -> Finding:
    """Everything is as it should be."""
    return Finding("pass", seen)


def warned(seen: str, remedy: str) -> Finding:
    """Allowed by the specification, and probably not meant."""
    return Finding("warn", seen, remedy)


def failed(seen: str, remedy: str) -> Finding:
    """The specification is broken."""
    return Finding("fail", seen, remedy)


def skipped(reason: str) -> Finding:
    """The check says nothing about this environment."""
    return Finding("skip", reason)
