"""Renders messages as token ids with a tokenizer's chat template, and makes the tokenizer of a tiny model."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from openenv.policies.prompts import ChatMessage

TokenIds = tuple[int, ...]

PAD, UNKNOWN, END = "<|pad|>", "<|unknown|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_REPLY_PLACE = "REPLYGOESHERE"
_CACHE_SIZE = 200_000


class Chat:
    """A tokenizer and its chat template. Rendered prompts are cached, because games repeat the same few situations."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._rendered: dict[tuple[Any, ...], TokenIds] = {}

    @property
    def end_id(self) -> int:
        """The token that ends a reply."""
        return int(self.tokenizer.eos_token_id)

    @property
    def pad_id(self) -> int:
        """The token that pads short rows. It may equal the end token: no mask is derived from it."""
        pad = self.tokenizer.pad_token_id
        return self.end_id if pad is None else int(pad)

    def prompt(self, messages: Sequence[ChatMessage]) -> TokenIds:
        """The token ids after which the model writes its next reply.

        A reply with `token_ids` is repeated as exactly these tokens: a decoded reply that is encoded again may give
        others, and the recorded log-probabilities belong to the sampled ones. Other messages are rendered as text.
        """
        sampled = [index for index, message in enumerate(messages) if message.get("token_ids") is not None]
        ends = [*sampled, len(messages)]
        ids = list(self._opening(messages[: ends[0]]))
        for index, end in itertools.pairwise(ends):
            reply_ids = messages[index]["token_ids"]
            ids += reply_ids
            ids += self._after_reply(messages[index + 1 : end], reply_ids[-1:] == (self.end_id,))
        return tuple(ids)

    def _opening(self, messages: Sequence[ChatMessage]) -> TokenIds:
        """The ids up to the first reply with known tokens."""
        key = tuple((message["role"], message["content"]) for message in messages)
        return self._cached(key, lambda: self.encode(self._render(messages)))

    def _after_reply(self, messages: Sequence[ChatMessage], reply_ended: bool) -> TokenIds:
        """The ids between a reply and the next one. reply_ended: the reply's own ids include the end token."""

        def render() -> TokenIds:
            place: list[ChatMessage] = [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": _REPLY_PLACE},
            ]
            ids = self.encode(self._render([*place, *messages]).split(_REPLY_PLACE)[1])
            return ids[1:] if reply_ended and ids[:1] == (self.end_id,) else ids

        return self._cached((reply_ended, *((m["role"], m["content"]) for m in messages)), render)

    def encode(self, text: str) -> TokenIds:
        """The ids of a text that the template has rendered: no special tokens are added."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of sampled ids, without special tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True)).strip()

    def _cached(self, key: tuple[Any, ...], render: Any) -> TokenIds:
        ids: TokenIds | None = self._rendered.get(key)
        if ids is None:
            if len(self._rendered) >= _CACHE_SIZE:
                self._rendered.clear()
            ids = self._rendered[key] = render()
        return ids

    def _render(self, messages: Sequence[ChatMessage]) -> str:
        turns = [{"role": message["role"], "content": message["content"]} for message in messages]
        return str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the words of `texts`, separated by white space, in order of first appearance.

    Its chat template writes `<|role|> content <|end|>` for each message; `<|end|>` ends a reply, and padding has a
    token of its own. A word that is not in `texts` becomes `<|unknown|>`. transformers saves and loads it with a model.
    """
    special = [PAD, UNKNOWN, END, *ROLES]
    words = dict.fromkeys([*special, *(word for text in texts for word in text.split())])
    backend = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token=UNKNOWN))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
    )
