"""From messages to the token ids that a model is prompted with, and back from sampled ids to a reply."""

from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, str]
TokenIds = tuple[int, ...]

_MARK = "REPLYGOESHERE"
_CACHE_SIZE = 200_000


class Chat:
    """A tokenizer's chat template. Prompts are remembered: games show the same few situations again and again."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._prompts: dict[tuple[tuple[str, str], ...], TokenIds] = {}

    @property
    def end_id(self) -> int:
        """The token that ends a reply."""
        return int(self.tokenizer.eos_token_id)

    @property
    def pad_id(self) -> int:
        """The token that fills up short rows. It may be the end token: masks never depend on it."""
        pad = self.tokenizer.pad_token_id
        return self.end_id if pad is None else int(pad)

    def prompt(self, messages: Sequence[Message]) -> TokenIds:
        """The ids after which the model speaks."""
        key = tuple((message["role"], message["content"]) for message in messages)
        ids = self._prompts.get(key)
        if ids is None:
            if len(self._prompts) >= _CACHE_SIZE:
                self._prompts.clear()
            ids = self._prompts[key] = self.encode(self._render(messages))
        return ids

    def continuation(self, messages: Sequence[Message], *, reply_ended: bool) -> TokenIds:
        """The ids between the model's last reply and its next one, when `messages` follow that reply.

        reply_ended: whether the reply's own tokens already hold the end token.
        """
        turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": _MARK}, *messages]
        ids = self.encode(self._render(turns).split(_MARK)[1])
        return ids[1:] if reply_ended and ids[:1] == (self.end_id,) else ids

    def encode(self, text: str) -> TokenIds:
        """The ids of a text that the template has rendered: no special tokens are added."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, token_ids: Sequence[int]) -> str:
        """What sampled ids say, without special tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True)).strip()

    def _render(self, messages: Sequence[Message]) -> str:
        turns = [dict(message) for message in messages]
        return str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
