"""What an environment may be given, or may offer, by having the methods: nothing to inherit from."""

from typing import Any, Protocol

from typing_extensions import TypedDict


class Message(TypedDict):
    """One turn of a conversation, as chat templates take it."""

    role: str
    content: str


class ModelTokenizer(Protocol):
    """A tokenizer with a chat template, such as those of `transformers`."""

    def apply_chat_template(
        self,
        conversation: list[Message],
        tokenize: bool = True,
        return_tensors: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The conversation as text, or as token ids when `tokenize`. return_tensors: `pt` for those of PyTorch."""

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """The text of token ids."""


class TaskProvider(Protocol):
    """An environment over a data set that says which tasks it has; a server then lists them to its clients.

    An environment writes those of the methods that it can, plainly or as coroutines, and they work before the first
    reset. Which task an episode plays is a keyword of `reset`: `env.reset(split="test", index=12)`.
    """

    def list_splits(self) -> list[Any]:
        """The splits: names, dictionaries or pydantic models with a name."""

    def list_tasks(self, split: str) -> list[Any]:
        """The tasks of a split; of a very large one, perhaps the first of them."""

    def num_tasks(self, split: str) -> int:
        """How many tasks a split has, whatever `list_tasks` shows."""

    def get_task(self, split: str, index: int) -> Any:
        """One task. Raises IndexError when the split has no such index."""

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """The tasks from `start`, or the first, to before `stop`, or the end."""
