"""Sentences that the prompts of several environments have in common: the replies, and lists of words."""

from collections.abc import Iterable, Sequence

LISTED_REPLIES = "Reply with one of the legal replies that each message lists."
"""The form of a reply where each turn's description lists the legal ones."""


def reply_with_one_of(replies: Iterable[str]) -> str:
    """The form of a reply where the legal ones stay the same, such as `Reply with one of these: hit, stand.`"""
    return f"Reply with one of these: {', '.join(replies)}."


def legal_replies(replies: Iterable[str]) -> str:
    """The replies that are legal now, such as `Legal replies: a1, b2.`"""
    return f"Legal replies: {', '.join(replies)}."


def enumeration(words: Sequence[str]) -> str:
    """Words as a sentence lists them, such as `9, 2 and Q`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
