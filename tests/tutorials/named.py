"""What a run of the tutorials leaves out, replaces and supplies: everything else runs as it is shown.

A cell is left out by its content, so a cell that changes runs. An entry that matches no cell fails the test.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A cell that does not run."""

    digest: str
    """`Cell.digest`."""
    shows: str
    """What is in it."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """A part of the code in whose place another stands."""

    phrase: str
    by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Supplied:
    """Code of ours that runs before the cells with a phrase, because they use what the tutorial does not show."""

    phrase: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one tutorial is run."""

    left_out: tuple[LeftOut, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    supplied: tuple[Supplied, ...] = ()
    other_output: Mapping[str, str] = field(default_factory=dict)
    """`Cell.digest` of cells that need not print what the tutorial shows, and the reason."""
    checks: Mapping[str, Callable[[Any], None]] = field(default_factory=dict)
    """For a phrase of one cell, what must hold when it has run."""


INDENTATIONS = {
    "ec20e6ab093c": "00000000000111111221212010000",
    "6e38f0bb7184": "001110110111111110111100",
    "65515f1531c6": "0000000000000100010001000000",
    "f55e05ea5fb0": "000000000000000000100000",
    "708d11889e71": "000001112011120111222222222223442223434201112212222332330000010000",
    "f839aa953b9b": "011111111111112222221111111122211111111111000",
    "da4a2f952dcf": "00001100111100111",
    "1f1fd67fb18f": "00122122112",
    "425819b116e7": "000122122222212",
}
"""The depth of each line of the cells whose stored text has lost its indentation, by `cells.shape_of`."""
