"""Assembles the ids of a prompt from rendered text and the sampled tokens of earlier replies.

The template renders marks in place of sampled replies, and of strings that would become control tokens. The marks show
where the template puts a reply, and whether it keeps the reply's thinking.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from openenv.policies.prompts import END_OF_THINKING, THINK, split_thinking

TokenIds = tuple[int, ...]
Encode = Callable[[str], TokenIds]
Decode = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """The tokens of a reply, and those of its answer, which follow its thinking."""

    token_ids: TokenIds
    answer_ids: TokenIds
    """All tokens if the reply has no thinking."""
    text: str

    @classmethod
    def of(cls, token_ids: TokenIds, decode: Decode, encode: Encode) -> Self:
        """Find the answer in sampled tokens.

        Only where one token holds the end of the thinking and the begin of the answer, the answer is encoded again.
        """
        text = decode(list(token_ids))
        thinking, answer = split_thinking(text)
        if not thinking:
            return cls(token_ids, token_ids, text)
        markers = text.count(END_OF_THINKING)
        start = bisect_left(
            range(len(token_ids)), markers, key=lambda end: decode(list(token_ids[:end])).count(END_OF_THINKING)
        )
        if split_thinking(decode(list(token_ids[:start])))[1]:
            return cls(token_ids, encode(answer), text)
        while start < len(token_ids) and not decode([token_ids[start]]).strip():
            start += 1
        return cls(token_ids, token_ids[start:], text)


class Marks:
    """Short texts that stand for others while the template renders."""

    OPEN: ClassVar[str] = "\ue000"
    PATTERN: ClassVar[re.Pattern[str]] = re.compile("\ue000([0-9]+)\ue001")

    def __init__(self) -> None:
        self.entries: list[str | SampledTokens | None] = []
        """A control string, a sampled reply, or None for the thinking of the reply that follows."""

    def add(self, entry: str | SampledTokens | None) -> str:
        """The mark of the entry."""
        self.entries.append(entry)
        return f"{self.OPEN}{len(self.entries) - 1}\ue001"

    def without(self, pattern: re.Pattern[str], value: Any) -> Any:
        """The JSON value with a mark for each match of the pattern in its strings, those of keys included."""
        if isinstance(value, str):
            return pattern.sub(lambda match: self.add(match[0]), value)
        if isinstance(value, dict):
            return {self.without(pattern, key): self.without(pattern, part) for key, part in value.items()}
        return [self.without(pattern, part) for part in value] if isinstance(value, (list, tuple)) else value

    def reply(self, sampled: SampledTokens) -> str:
        """The content of a sampled reply: a mark, and one before it for its thinking if it has some."""
        thinking, _ = split_thinking(sampled.text)
        if not thinking:
            return self.add(sampled)
        space = thinking.rpartition(END_OF_THINKING)[2]
        return f"{THINK}\n{self.add(None)}\n{END_OF_THINKING}{space}{self.add(sampled)}"


class PromptTokens:
    """Writes the ids of one prompt."""

    def __init__(
        self,
        *,
        encode: Encode,
        decode: Decode,
        end_ids: Set[int],
        generation_prompt: str,
        gap: str,
        before: TokenIds = (),
    ) -> None:
        """gap: the white space that the template writes between generation prompt and reply. before: the ids of a
        conversation that the text continues, which ends with a reply."""
        self._encode = encode
        self._decode = decode
        self._end_ids = end_ids
        self._generation_prompt = generation_prompt
        self._gap = gap
        self._ids = list(before)
        self._pieces = [""]
        """The text since the last reply, in pieces that are encoded separately."""
        self._before_thinking: str | None = None

    def of(self, text: str, marks: Marks) -> TokenIds:
        """The ids of a rendered text."""
        position = 0
        for match in Marks.PATTERN.finditer(text):
            self._pieces[-1] += text[position : match.start()]
            position = match.end()
            entry = marks.entries[int(match[1])]
            if isinstance(entry, str):
                self._pieces[-1] += entry[0]  # encoded in two pieces, it cannot become one token
                self._pieces.append(entry[1:])
            elif entry is None:
                self._before_thinking = self._pieces[-1]
            else:
                self._add_reply(entry)
        self._pieces[-1] += text[position:]
        self._encode_pieces()
        return tuple(self._ids)

    def _add_reply(self, reply: SampledTokens) -> None:
        """Add the ids of the text before a reply, and its own: all of them, unless the template drops its thinking."""
        is_whole = self._before_thinking is not None or reply.answer_ids == reply.token_ids
        if is_whole:
            before = self._pieces[-1] if self._before_thinking is None else self._before_thinking
            self._pieces[-1] = self._header(before)
        self._encode_pieces()
        self._ids += reply.token_ids if is_whole else reply.answer_ids
        self._pieces, self._before_thinking = [""], None

    def _header(self, text: str) -> str:
        """The text before a whole reply, up to where the model began to write.

        The template may write white space, and the begin of thinking, that the model wrote itself.
        """
        start = text.rfind(self._generation_prompt) + len(self._generation_prompt)
        if self._generation_prompt and re.fullmatch(rf"\s*({THINK}\s*)?", text[start:]):
            return text[:start]
        return re.sub(rf"{THINK}\s*$", "", text).removesuffix(self._gap)

    def _encode_pieces(self) -> None:
        """Add the ids of the pieces. An end marker that repeats the end token of the reply before it is left out."""
        first, *others = (self._encode(piece) for piece in self._pieces)
        end_id = self._ids[-1] if self._ids and self._ids[-1] in self._end_ids else None
        if end_id in first and not self._decode(list(first[: first.index(end_id)])).strip():
            first = first[first.index(end_id) + 1 :]
        self._ids += first
        for ids in others:
            self._ids += ids
