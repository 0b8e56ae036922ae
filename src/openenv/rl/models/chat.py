"""Turns messages into token ids with a tokenizer's chat template, and makes the tokenizer of a tiny model."""

import copy
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from openenv.formats.json_text import json_text
from openenv.policies.prompts import ChatMessage
from openenv.rl.models.chat_template import ChatTemplate, ChatTemplateError
from openenv.rl.models.images import ARCHITECTURES, ImageReader, Images
from openenv.rl.models.prompt_tokens import Marks, PromptTokens, SampledTokens, TokenIds
from openenv.rl.models.reply_masks import ReplyMasks
from openenv.rl.models.sources.gguf_file import gguf_source
from openenv.text.content import Content, images_of
from openenv.text.reading import THOUGHT

PAD, UNKNOWN, END, IMAGE = "<|pad|>", "<|unknown|>", "<|end|>", "<|image_pad|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
IMAGE_CHAT_TEMPLATE = CHAT_TEMPLATE.replace(
    "{{ message['content'] }}",
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}" + IMAGE + "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}",
)
"""The same for messages that may have parts of text and images."""

_CACHE_SIZE = 200_000


class Chat:
    """A tokenizer and its chat template: the token ids that a model is shown, in training and in evaluation.

    A reply with `token_ids` stays exactly these tokens. Where the template drops the thinking of earlier turns, those
    of the answer stay. No text of a message becomes a control token. Prompts are cached, because games repeat the same
    few situations. Threads may share a chat.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        end_ids: Iterable[int] = (),
        enable_thinking: bool | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        image_reader: ImageReader | None = None,
    ) -> None:
        """
        Args:
            end_ids: tokens that end a reply, beside the tokenizer's own and the template's end marker.
            enable_thinking: passed to the template unless it is None.
            tools: function definitions as JSON schemas, shown in every prompt.
            image_reader: None for a model of text.

        Raises:
            ChatTemplateError: if there is no template, if it does not render the tools, or if nothing ends a reply.
        """
        self._lock = threading.RLock()
        """Held while the tokenizer works, which fails where a second thread uses it."""
        self.tokenizer = tokenizer
        self.image_reader = image_reader
        self.image_ids: TokenIds = ()
        """The token that stands for a part of an image; empty for a model of text."""
        if image_reader is not None:
            self.image_ids = (tokenizer.convert_tokens_to_ids(image_reader.image_token),)
        self.tools = tools
        self._enable_thinking = enable_thinking
        self.template = ChatTemplate(tokenizer, enable_thinking=enable_thinking, tools=tools)
        self._patterns = _Patterns(tokenizer)
        self.end_id = self._end_id(end_ids)
        """The token that the template writes at the end of a reply; the tokenizer's end token if it writes none."""
        self.end_ids = frozenset({self.end_id, *end_ids, *_known([tokenizer.eos_token_id])})
        """All tokens that end a reply."""
        added = tokenizer.added_tokens_decoder
        thinking = {i for i, token in added.items() if THOUGHT.fullmatch(token.content)}
        self._hidden_ids = set(tokenizer.all_special_ids) - thinking
        self._prompts: dict[Any, TokenIds] = {}
        self._encoded: dict[str, TokenIds] = {}
        self._sampled: dict[TokenIds, SampledTokens] = {}

    @property
    def pad_id(self) -> int:
        """The token that pads short rows. It may equal the end token: no mask is derived from it."""
        pad = self.tokenizer.pad_token_id
        return self.end_id if pad is None else int(pad)

    def reply_masks(self, vocab_size: int) -> ReplyMasks:
        """Makes the masks of constrained replies. vocab_size: columns of the model's logits."""
        start = self.template.generation_prompt
        return ReplyMasks(self.tokenizer, vocab_size=vocab_size, end_id=self.end_id, prompt_end=start, lock=self._lock)

    def prompt(self, messages: Sequence[ChatMessage]) -> TokenIds:
        """The token ids after which the model writes its next reply.

        Raises ChatTemplateError if the template cannot render a message, for example one with an image.
        """
        with self._lock:
            ids: TokenIds = _cached(self._prompts, tuple(map(_key, messages)), lambda: self._assembled(messages))
        return ids

    def continued(self, before: TokenIds, messages: Sequence[ChatMessage], reply: int) -> TokenIds:
        """The token ids of a prompt that continues a captured conversation, which stays what it is.

        What the template would change in earlier turns, such as their thinking, is not changed.

        Args:
            before: the ids of the conversation, with its last reply.
            messages: all of the prompt.
            reply: the number of that reply among them.

        Raises:
            ChatTemplateError: if the template cannot render the messages, or leaves the reply out.
        """
        with self._lock:
            marks = Marks()
            shown = [self._marked(message, marks) for message in messages]
            place = marks.add("")
            shown[reply] = {"role": "assistant", "content": place}
            _, found, text = self._rendered(shown, messages, marks).partition(place)
            if not found:
                raise ChatTemplateError("the chat template leaves a reply out that the conversation continues.")
            return self._prompt_tokens(before).of(text, marks)

    def with_tools(self, tools: Sequence[Mapping[str, Any]]) -> Self:
        """The same with other tools. Raises ChatTemplateError if the template does not render them."""
        other = copy.copy(self)
        other.template = ChatTemplate(self.tokenizer, enable_thinking=self._enable_thinking, tools=tools)
        other.tools, other._prompts = tools, {}
        return other

    def fits(self, max_tokens: int) -> Callable[[Sequence[ChatMessage]], bool]:
        """Whether a prompt has at most `max_tokens` tokens, as a function of its messages."""
        return lambda messages: len(self.prompt(messages)) <= max_tokens

    def images(self, messages: Sequence[ChatMessage]) -> Images:
        """The images of messages, in their order. Raises ChatTemplateError for a model of text."""
        parts = [part for message in messages for part in images_of(message["content"])]
        if not parts:
            return ()
        if self.image_reader is None or not self.template.has_images:
            lacks = "the model reads no images" if self.image_reader is None else "the chat template renders no images"
            raise ChatTemplateError(
                f"{lacks}, and {parts[0].get('name')!r} of the observation is one. Use a model of vision and language "
                f"(model.path) of the type {' or '.join(sorted(ARCHITECTURES))}, or a text interface (env.text) that "
                "describes it in words."
            )
        return tuple(map(self.image_reader.read, parts))

    def with_images_once(self, prompt: TokenIds, images: Images) -> TokenIds:
        """The prompt with one token for each image instead of all of its parts."""
        if self.image_reader is None or not images:
            return prompt
        shown, place, lengths = list[int](), 0, iter([self.image_reader.num_tokens(image) for image in images])
        while place < len(prompt):
            shown.append(prompt[place])
            place += next(lengths) if prompt[place] in self.image_ids else 1
        return tuple(shown)

    def encode(self, text: str) -> TokenIds:
        """The ids of a text that the template has rendered: no special tokens are added."""
        with self._lock:
            return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of sampled ids, without special tokens. Thinking and its markers stay."""
        with self._lock:
            return str(self.tokenizer.decode([i for i in token_ids if i not in self._hidden_ids])).strip()

    def _assembled(self, messages: Sequence[ChatMessage]) -> TokenIds:
        marks = Marks()
        shown = [self._marked(message, marks) for message in messages]
        return self._prompt_tokens().of(self._rendered(shown, messages, marks), marks)

    def _rendered(self, shown: Sequence[Mapping[str, Any]], messages: Sequence[ChatMessage], marks: Marks) -> str:
        tools = [marks.without(self._patterns.control, tool) for tool in self.tools]
        return self._with_image_tokens(self.template.render(shown, tools), self.images(messages))

    def _prompt_tokens(self, before: TokenIds = ()) -> PromptTokens:
        return PromptTokens(
            encode=lambda piece: _cached(self._encoded, piece, lambda: self.encode(piece)),
            decode=self.tokenizer.decode,
            end_ids=self.end_ids,
            generation_prompt=self.template.generation_prompt,
            gap=self.template.gap,
            before=before,
        )

    def _marked(self, message: ChatMessage, marks: Marks) -> dict[str, Any]:
        """The message as the template sees it: marks stand for sampled replies and for control strings."""
        token_ids = message.get("token_ids")
        if token_ids is not None:
            sampled: SampledTokens = _cached(
                self._sampled, token_ids, lambda: SampledTokens.of(token_ids, self.tokenizer.decode, self.encode)
            )
            return {"role": message["role"], "content": marks.reply(sampled)}
        if message["role"] == "tool" and not self.template.has_tool_role:
            raise ChatTemplateError("the chat template has no role tool. Use a model whose template has tools.")
        pattern = self._patterns.special if message["role"] == "assistant" else self._patterns.control
        shown: dict[str, Any] = marks.without(pattern, {**message, "content": _content(message["content"])})
        return shown

    def _with_image_tokens(self, text: str, images: Images) -> str:
        """The rendered text, with all tokens of each image. Raises ChatTemplateError if the text lacks an image."""
        if self.image_reader is None or not images:
            return text
        first, *others = text.split(self.image_reader.image_token)
        if len(others) != len(images):
            raise ChatTemplateError(f"the chat template renders {len(others)} of {len(images)} images.")
        return first + "".join(
            self.image_reader.tokens(image) + after for image, after in zip(images, others, strict=True)
        )

    def _end_id(self, end_ids: Iterable[int]) -> int:
        marker = self.encode(self.template.after_reply.lstrip())[:1]
        if marker and self._patterns.control.fullmatch(str(self.tokenizer.convert_ids_to_tokens(marker[0]))):
            return marker[0]
        for end_id in (*_known([self.tokenizer.eos_token_id]), *end_ids):
            return end_id
        raise ChatTemplateError(
            "no token ends a reply. Set the tokenizer's eos_token to the one that the model writes."
        )


def chat_of(
    tokenizer: Any,
    ends: Sequence[int],
    image_reader: ImageReader | None,
    *,
    enable_thinking: bool | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
) -> Chat:
    """The chat of a tokenizer.

    Args:
        tokenizer: of transformers.
        ends: the tokens that end a reply by the model's generation config.
        image_reader: None for a model that reads text alone.
        enable_thinking: as the template has it; None: its own default.
        tools: those of the environment, which a template that renders tools gets; the instructions describe them for
            any other.

    Raises:
        ChatTemplateError: for a tokenizer without a usable template.
    """
    renders_tools = "tools" in str(tokenizer.chat_template)
    return Chat(
        tokenizer,
        end_ids=ends,
        enable_thinking=enable_thinking,
        tools=tools if renders_tools else (),
        image_reader=image_reader,
    )


class _Patterns:
    """Finds the strings that a tokenizer encodes as control tokens."""

    def __init__(self, tokenizer: Any) -> None:
        template = str(tokenizer.chat_template)
        added = tokenizer.added_tokens_decoder.values()
        special = {token.content for token in added if token.special}
        in_template = {token.content for token in added if token.content.strip() and token.content in template}
        self.special = _pattern(special)
        """Tokens that the tokenizer calls special."""
        self.control = _pattern(special | in_template)
        """Also those that the template may write, such as `<think>`."""


def _pattern(strings: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted((string for string in strings if len(string) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, [*longest_first, Marks.OPEN])))


def _content(content: Content) -> Content:
    """The content as the template takes it: one text where all parts are text, and images without their data.

    Raises ChatTemplateError for parts of another type.
    """
    if isinstance(content, str):
        return content
    kinds = {str(part.get("type")) for part in content}
    if kinds <= {"text"}:
        return "".join(part["text"] for part in content)
    if kinds <= {"text", "image"}:
        return [{"type": "image"} if part["type"] == "image" else part for part in content]
    raise ChatTemplateError(f"parts of type {', '.join(sorted(kinds - {'text', 'image'}))}: describe them as text.")


def _known(ids: Iterable[int | None]) -> list[int]:
    return [int(i) for i in ids if i is not None]


def _cached(known: dict[Any, Any], key: Any, make: Any) -> Any:
    """The value of the key, made if it is not known. A full cache is emptied."""
    value = known.get(key)
    if value is None:
        if len(known) >= _CACHE_SIZE:
            known.clear()
        value = known[key] = make()
    return value


def _key(message: ChatMessage) -> Any:
    content, role = message["content"], message["role"]
    if isinstance(content, str) and role != "tool" and "tool_calls" not in message:
        return role, content, message.get("token_ids")
    written = json_text(message, sort_keys=True, default=repr)
    return hashlib.blake2b(written.encode(), digest_size=16).digest()  # images are long


def load_tokenizer(path: str | Path) -> Any:
    """The tokenizer of a folder, a GGUF file or a hub id."""
    source, options = gguf_source(path)
    return AutoTokenizer.from_pretrained(source, **options)


def word_tokenizer(texts: Iterable[str], *, images: bool = False) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the words of `texts`, in order of first appearance.

    White space separates words, and punctuation at their end is a token of its own: `hit, stand.` has four. All else in
    a word stays together, such as `-3.5`, `2..5` and `{"name":`. Decoding returns the text, with one space for each run
    of white space. A word that is not in `texts` becomes `<|unknown|>`.

    Its chat template writes `<|role|> content <|end|>` for each message; `<|end|>` ends a reply, and padding has a
    token of its own. transformers saves and loads it with a model. images: whether there is a token for images, and the
    template renders them.
    """
    control = [*ROLES, IMAGE] if images else [*ROLES]
    parts = (part for text in texts for word in text.split() for part in _word_parts(word))
    tokens = dict.fromkeys([PAD, UNKNOWN, END, *control, *parts])
    backend = Tokenizer(
        WordPiece(
            {token: index for index, token in enumerate(tokens)},
            unk_token=UNKNOWN,
            continuing_subword_prefix=_JOINED,
            max_input_chars_per_word=max(map(len, tokens)) + _MOST_MARKS,
        )
    )
    backend.pre_tokenizer = WhitespaceSplit()
    backend.decoder = WordPieceDecoder(prefix=_JOINED, cleanup=False)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=control,
        chat_template=IMAGE_CHAT_TEMPLATE if images else CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


_JOINED = "\u2040"
"""Begins a token that no space precedes: the marks after a word."""
_MOST_MARKS = 16
_MARKS = re.compile(r'(?<!")[.,:;!?]+$')
"""The marks at the end of a word. Those of JSON, after a quotation mark, are left: a reply is as short as its words."""


def _word_parts(word: str) -> list[str]:
    """The tokens of a word: itself without the marks at its end, and each mark."""
    marks = _MARKS.search(word)
    if marks is None or marks.start() == 0:
        return [word]
    return [word[: marks.start()], *(_JOINED + mark for mark in marks[0])]
