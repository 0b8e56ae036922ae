"""Renders messages as text with a tokenizer's chat template, and finds out what the template can render."""

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from jinja2 import TemplateError

from openenv.text.reading import after_thinking

_QUESTION, _ANSWER = "probe question", "probe answer"


class ChatTemplateError(ValueError):
    """The chat template cannot render the messages, the tools or the images of a run."""


class ChatTemplate:
    """The chat template of a tokenizer. Messages are mappings with `role` and `content`.

    Raises ChatTemplateError if the tokenizer has no template, or one that cannot render `tools`.
    """

    def __init__(
        self, tokenizer: Any, *, enable_thinking: bool | None = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """enable_thinking: passed to the template unless it is None. tools: function definitions as JSON schemas."""
        if not tokenizer.chat_template:
            name = type(tokenizer).__name__
            raise ChatTemplateError(f"the {name} has no chat template. Set its chat_template and save it again.")
        self._tokenizer = tokenizer
        self._options: dict[str, Any] = {} if enable_thinking is None else {"enable_thinking": enable_thinking}
        self._require_tools(tools)

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The conversation as text, up to the point where the model writes its reply.

        Where the template has no role `system`, the system text begins the first message of the user. Raises
        ChatTemplateError if the template refuses the messages.
        """
        text = self._apply(self._folded(messages), tools=tools, asks=True)
        return text if self._asks_by_itself else text + self.generation_prompt

    @cached_property
    def generation_prompt(self) -> str:
        """The text after the last message that begins a reply. Empty if the end of the user's turn does so."""
        question = [_message("user", _QUESTION)]
        plain = self._apply(question)
        if self._asks_by_itself:
            asked = self._apply(question, asks=True)
            shared = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(plain, asked, strict=False))
            return asked[sum(1 for _ in shared) :]
        header = self._before_answer.removeprefix(plain)
        return header if self._before_answer.startswith(plain) and header.strip() else ""

    @cached_property
    def opens_thinking(self) -> bool:
        """Whether the generation prompt opens the thinking of a reply, which then has its end alone."""
        return after_thinking(self.generation_prompt) is None

    @cached_property
    def gap(self) -> str:
        """The white space that the template writes between the generation prompt and a reply, such as the space of
        `Assistant: yes`. The model writes it itself."""
        start = self.render([_message("user", _QUESTION)])
        rest = self._before_answer.removeprefix(start)
        return rest if self._before_answer.startswith(start) and not rest.strip() else ""

    @cached_property
    def after_reply(self) -> str:
        """The text that the template writes after the last reply of a conversation: its end marker, if it has one."""
        text = self._apply([_message("user", _QUESTION), _message("assistant", _ANSWER)])
        return text.partition(_ANSWER)[2]

    @cached_property
    def has_system_role(self) -> bool:
        """Whether the template renders messages of the role `system`."""
        return self._renders([_message("system", _ANSWER), _message("user", _QUESTION)], _ANSWER)

    @cached_property
    def has_tool_role(self) -> bool:
        """Whether the template renders messages of the role `tool` after a reply."""
        asked = [_message("user", _QUESTION), _message("assistant", "call")]
        return self._renders([*asked, _message("tool", _ANSWER)], _ANSWER)

    @cached_property
    def has_images(self) -> bool:
        """Whether the template renders a content that is a list of text and image parts."""
        parts: list[Any] = [{"type": "text", "text": _QUESTION}]
        with_image = [*parts, {"type": "image"}]
        if not self._renders([_message("user", with_image)], _QUESTION):
            return False
        text = self._apply([_message("user", with_image)])
        return "'type'" not in text and text != self._apply([_message("user", parts)])

    @cached_property
    def _asks_by_itself(self) -> bool:
        """Whether the template knows `add_generation_prompt`."""
        question = [_message("user", _QUESTION)]
        return self._apply(question, asks=True) != self._apply(question)

    @cached_property
    def _before_answer(self) -> str:
        """What the template writes before the reply to a first question, when another question follows."""
        question = _message("user", _QUESTION)
        return self._apply([question, _message("assistant", _ANSWER), question]).partition(_ANSWER)[0]

    def _require_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:
        if not tools:
            return
        names = [str(tool.get("function", tool)["name"]) for tool in tools]
        text = self._apply([_message("user", _QUESTION)], tools=tools)
        missing = [name for name in names if name not in text]
        rule = "Use a model whose template has tools, or describe them in the instructions."
        if missing:
            raise ChatTemplateError(f"the chat template does not render the tools {', '.join(missing)}. {rule}")
        if not self.has_tool_role:
            raise ChatTemplateError(f"the chat template does not render results of tools (role: tool). {rule}")

    def _renders(self, messages: Sequence[Mapping[str, Any]], text: str) -> bool:
        try:
            return text in self._apply(messages)
        except ChatTemplateError:
            return False

    def _folded(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The messages, without a system message where the template has no such role."""
        if not messages or messages[0]["role"] != "system" or self.has_system_role:
            return list(messages)
        system, *others = messages
        if not others or others[0]["role"] != "user":
            return [{**system, "role": "user"}, *others]
        return [{**others[0], "content": _after(system["content"], others[0]["content"])}, *others[1:]]

    def _apply(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = (), asks: bool = False
    ) -> str:
        """The template's own text. asks: whether the model writes next."""
        options = {**self._options, "tools": list(tools)} if tools else self._options
        try:
            text = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=asks, **options
            )
        except (TemplateError, TypeError, KeyError, AttributeError) as error:  # what a template's own code raises
            roles = ", ".join(str(message["role"]) for message in messages)
            raise ChatTemplateError(f"the chat template cannot render messages of {roles}: {error}") from error
        return str(text)


def _message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def _after(system: Any, content: Any) -> Any:
    """The content of the user, with the system text before it."""
    if isinstance(content, str) and isinstance(system, str):
        return f"{system}\n\n{content}"
    parts = [[{"type": "text", "text": part}] if isinstance(part, str) else part for part in (system, "\n\n", content)]
    return [*parts[0], *parts[1], *parts[2]]
