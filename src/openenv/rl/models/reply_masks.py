"""The tokens that a constrained reply may go on with, as bit masks over the vocabulary.

A `ReplyMasks` makes the first state of a reply from its constraint; a state has the mask of the next token and the
state after each token. States do not change, so that replies which share a beginning share its states. Choices are
written as the tokenizer writes them, so that each has one sequence of tokens and the policy's distribution over tokens
is its distribution over actions. JSON is matched by llguidance, in any tokens that spell it; so are the choices that a
vLLM server has drawn.

Thinking is free: the constraint begins after its end mark. A reply that does not think begins with its answer.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from openenv.policies.prompts import END_OF_THINKING, THINK
from openenv.rl.config import ConfigError
from openenv.rl.models.devices import moved
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.text.constraints import ReplyConstraint

Mask = bytes
"""One bit a token, the lowest of each byte first. Equal masks are equal bytes."""

JSON_FORM: Any = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
"""How llguidance writes JSON: as json.dumps does."""
_TAIL = 12  # tokens in which the end mark of thinking is looked for
_CACHE_SIZE = 20_000


class ReplyState(Protocol):
    """A reply up to some token."""

    @property
    def mask(self) -> Mask | None:
        """The tokens that may follow; None: all."""

    def after(self, token: int) -> "ReplyState":
        """The state after one of these tokens."""


def schema_problem(constraint: ReplyConstraint) -> str:
    """Why no reply can be limited to a schema; empty if one can."""
    from llguidance import LLMatcher  # heavy: loads a library

    grammar = LLMatcher.grammar_from_json_schema(constraint.schema, overrides=JSON_FORM)
    return str(LLMatcher.validate_grammar(grammar, None))


def can_spell(tokenizer: Any) -> bool:
    """Whether replies in the tokens of a tokenizer can be limited to JSON."""
    import llguidance.hf

    try:
        llguidance.hf.from_tokenizer(tokenizer)
    except ValueError:
        return False
    return True


class ReplyMasks:
    """Makes the states of constrained replies for one tokenizer and chat template."""

    def __init__(
        self, tokenizer: Any, *, vocab_size: int, end_id: int, prompt_end: str, lock: AbstractContextManager[Any]
    ) -> None:
        """
        Args:
            vocab_size: columns of the model's logits.
            end_id: ends a reply.
            prompt_end: the text of the template that begins a reply, which may have begun or ended its thinking.
            lock: held while the tokenizer works.
        """
        self._tokenizer = tokenizer
        self._lock = lock
        self._vocab_size = vocab_size
        self._end_id = end_id
        opened = prompt_end.rfind(THINK) > prompt_end.rfind(END_OF_THINKING)
        closed = END_OF_THINKING in prompt_end and not opened
        think_id = _id_of(tokenizer, THINK)
        self._is_thinking = opened
        self._think_id = None if opened or closed else think_id
        self._mask_of = functools.lru_cache(_CACHE_SIZE)(self._packed)
        self._choices = functools.lru_cache(_CACHE_SIZE)(self._choice_state)
        self._matcher = functools.lru_cache(_CACHE_SIZE)(self._new_matcher)

    def start(self, constraint: ReplyConstraint | None) -> ReplyState | None:
        """The state of a reply that has no token yet; None: nothing restricts it."""
        if constraint is None:
            return None
        answer: ReplyState = self._choices(constraint.choices) if constraint.choices else self.spelled(constraint)
        if self._is_thinking:
            return _Thinking(answer, self._decode, self._space)
        if self._think_id is not None:
            thinking = _Thinking(answer, self._decode, self._space)
            return _Either(answer, self._think_id, thinking, self._with(answer.mask, [self._think_id]))
        return answer

    def spelled(self, constraint: ReplyConstraint) -> "_SpelledState":
        """The state of an answer that any tokens may spell, not those of the tokenizer alone."""
        return _SpelledState(self._matcher(constraint), -(-self._vocab_size // 8))

    def masks_of(self, constraint: ReplyConstraint, token_ids: Sequence[int]) -> list[Mask]:
        """The masks of a reply that another generator has drawn, in any tokens that spell it. Raises ValueError if the
        constraint does not allow the reply."""
        state, masks = self.spelled(constraint), []
        for place, token in enumerate(token_ids):
            masks.append(state.mask)
            if not allows(state.mask, token):
                written = self._decode(list(token_ids[: place + 1]))
                raise ValueError(f"{written!r} is not the begin of a reply that the constraint allows")
            state = state.after(token)
        return masks

    def _encode(self, text: str) -> list[int]:
        with self._lock:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _decode(self, token_ids: list[int]) -> str:
        with self._lock:
            return str(self._tokenizer.decode(token_ids))

    def _packed(self, ids: frozenset[int]) -> Mask:
        bits = np.zeros(self._vocab_size, dtype=np.uint8)
        bits[list(ids)] = 1
        return np.packbits(bits, bitorder="little").tobytes()

    def _with(self, mask: Mask | None, ids: Iterable[int]) -> Mask | None:
        """A mask with further tokens."""
        if mask is None:
            return None
        return self._mask_of(frozenset({*np.flatnonzero(_bits(mask, self._vocab_size)).tolist(), *ids}))

    def _choice_state(self, choices: tuple[str, ...]) -> "_ChoiceState":
        ends = [(*self._encode(choice), self._end_id) for choice in choices]
        return _ChoiceState(tuple(ends), self._mask_of)

    @functools.cached_property
    def _space(self) -> dict[int, Mask]:
        """White space that may stand between thinking and answer, as single tokens with their masks."""
        texts = ("\n\n", "\n")
        ids = list(map(self._encode, texts))
        return {encoded[0]: self._mask_of(frozenset(encoded)) for encoded in ids if len(encoded) == 1}

    @functools.cached_property
    def _guidance_tokens(self) -> Any:
        """The vocabulary as llguidance takes it. Raises ConfigError for a tokenizer that it cannot read."""
        import llguidance.hf  # heavy: loads a library

        try:
            return llguidance.hf.from_tokenizer(self._tokenizer, n_vocab=self._vocab_size, eos_token=self._end_id)
        except ValueError as error:
            raise ConfigError(
                f"sampling.constrain=True: the replies of the environment are JSON, and llguidance cannot read the "
                f"tokenizer {type(self._tokenizer).__name__}: {error}. Set it to false."
            ) from error

    def _new_matcher(self, constraint: ReplyConstraint) -> Any:
        from llguidance import LLMatcher

        if constraint.choices:
            grammar = LLMatcher.grammar_from_regex("|".join(map(re.escape, constraint.choices)))
        else:
            grammar = LLMatcher.grammar_from_json_schema(constraint.schema, overrides=JSON_FORM)
        matcher = LLMatcher(self._guidance_tokens, grammar)
        if matcher.is_error():
            raise ConfigError(
                f"sampling.constrain=True: replies cannot be limited to {constraint}: {matcher.get_error()}. Set it to "
                "false."
            )
        return matcher


@dataclass(frozen=True, slots=True)
class _ChoiceState:
    """The choices that the tokens so far may become, each as the tokens that are left of it."""

    left: tuple[TokenIds, ...]
    pack: Any
    """Makes the mask of some tokens."""
    known: dict[int, "_ChoiceState"] = field(default_factory=dict, compare=False)

    @property
    def mask(self) -> Mask:
        """The next token of each choice."""
        mask: Mask = self.pack(frozenset(rest[0] for rest in self.left if rest))
        return mask

    def after(self, token: int) -> "_ChoiceState":
        """The choices that go on with the token."""
        if token not in self.known:
            left = tuple(rest[1:] for rest in self.left if rest and rest[0] == token)
            self.known[token] = _ChoiceState(left, self.pack)
        return self.known[token]


class _SpelledState:
    """A matcher of llguidance, of which each state has its own copy."""

    def __init__(self, matcher: Any, size: int) -> None:
        """size: bytes of a mask; llguidance makes whole words of it."""
        self._matcher = matcher
        self._size = size

    @functools.cached_property
    def mask(self) -> Mask:
        """The tokens that some legal reply goes on with."""
        return bytes(self._matcher.compute_bitmask())[: self._size]

    def after(self, token: int) -> "_SpelledState":
        """The state after the token. The end token changes nothing that is looked at again."""
        matcher = self._matcher.deep_copy()
        matcher.consume_token(token)
        return _SpelledState(matcher, self._size)


@dataclass(frozen=True, slots=True)
class _Thinking:
    """Free tokens up to the end mark, then at most one token of white space, then the answer."""

    answer: ReplyState
    decode: Any
    space: dict[int, Mask]
    tail: TokenIds = ()

    @property
    def mask(self) -> None:
        """All tokens."""
        return None

    def after(self, token: int) -> ReplyState:
        """Still thinking, unless the token completes the end mark."""
        tail = (*self.tail[-_TAIL:], token)
        _, marker, rest = self.decode(list(tail)).rpartition(END_OF_THINKING)
        if not marker:
            return _Thinking(self.answer, self.decode, self.space, tail)
        if rest or not self.space:
            return self.answer
        return _Spaced(self.answer, self.space)


@dataclass(frozen=True, slots=True)
class _Spaced:
    """The answer, before which one token of white space may stand."""

    answer: ReplyState
    space: dict[int, Mask]

    @property
    def mask(self) -> Mask | None:
        """The tokens of the answer and of white space."""
        first = self.answer.mask
        return None if first is None else functools.reduce(_union, self.space.values(), first)

    def after(self, token: int) -> ReplyState:
        """The answer, begun by the token unless that is white space."""
        return self.answer if token in self.space else self.answer.after(token)


@dataclass(frozen=True, slots=True)
class _Either:
    """A reply that begins with the mark of thinking, or with its answer."""

    answer: ReplyState
    think_id: int
    thinking: ReplyState
    mask: Mask | None

    def after(self, token: int) -> ReplyState:
        """Thinking after its mark, else the answer."""
        return self.thinking if token == self.think_id else self.answer.after(token)


@functools.lru_cache(_CACHE_SIZE)
def num_allowed(mask: Mask) -> int:
    """Number of tokens that a mask allows."""
    return int.from_bytes(mask, "little").bit_count()


def allows(mask: Mask, token: int) -> bool:
    """Whether a mask allows a token."""
    return bool(mask[token // 8] >> token % 8 & 1)


def is_choice(mask: Mask | None) -> bool:
    """Whether a token is drawn among several."""
    return mask is None or num_allowed(mask) > 1


def mask_table(masks: Sequence[Mask | None], vocab_size: int) -> tuple[Tensor, Tensor]:
    """Distinct masks as rows, [M, vocabulary] bool, and the row of each mask, [len(masks)]."""
    rows: dict[Mask | None, int] = {}
    index = torch.tensor([rows.setdefault(mask, len(rows)) for mask in masks], dtype=torch.long)
    table = np.ones((len(rows), vocab_size), dtype=np.bool_)
    for mask, row in rows.items():
        if mask is not None:
            table[row] = _bits(mask, vocab_size)
    return torch.from_numpy(table), index


def masked(logits: Tensor, masks: Sequence[Mask | None]) -> Tensor:
    """The logits, [rows, vocabulary], with minus infinity where the mask of the row forbids the token."""
    if not any(mask is not None for mask in masks):
        return logits
    table, index = mask_table(masks, logits.shape[-1])
    return logits.masked_fill(~moved(table, logits.device)[moved(index, logits.device)], -torch.inf)


def _bits(mask: Mask, vocab_size: int) -> Any:
    return np.unpackbits(np.frombuffer(mask, dtype=np.uint8), bitorder="little", count=vocab_size)


def _union(one: Mask, other: Mask) -> Mask:
    return (np.frombuffer(one, dtype=np.uint8) | np.frombuffer(other, dtype=np.uint8)).tobytes()


def _id_of(tokenizer: Any, text: str) -> int | None:
    """The id of a text that is one added token; None if it is none."""
    return next((i for i, token in tokenizer.added_tokens_decoder.items() if token.content == text), None)
