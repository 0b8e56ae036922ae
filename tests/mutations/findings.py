"""The mends of the rows of `tests/findings.py`, each with the smallest change that reverts it."""

from tests.mutations import attacks, first_uses, replies_and_formats
from tests.mutations.mutation import Mutation, TextMutation

FIRST_ROW = "a reply is read as people read it, and one that was cut off is counted"
"""The rows from here on have mends that can be reverted."""

MENDS: dict[str, list[Mutation | TextMutation]] = {
    **replies_and_formats.MENDS, **first_uses.MENDS, **attacks.MENDS,
}  # fmt: skip
"""By rows, in their order."""
