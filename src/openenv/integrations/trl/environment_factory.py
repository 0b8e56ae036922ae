"""An environment as a class for `GRPOTrainer(environment_factory=...)`: the model acts by calling its methods.

Example:
    from openenv.integrations.trl import as_environment_factory

    trainer = GRPOTrainer(model, environment_factory=as_environment_factory("guess", group_size=8), args=..., ...)
"""

import atexit
import itertools
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

from pydantic import ValidationError

from openenv.auto.environment import ServedEnvironment, named_environment, token_headers
from openenv.auto.schema_client import describe_server
from openenv.core.env_client import EnvClient
from openenv.core.errors import OpenEnvError, is_refused_action
from openenv.integrations.trl.tool_methods import (
    MakeAction,
    arguments_text,
    method_of_action,
    methods_of_tools,
    takes_free_text,
)
from openenv.text.content import images_of

log = logging.getLogger(__name__)

_SEEDS = 1 << 31
_MOST_LISTED = 32
"""Legal calls that an observation lists."""


class ToolEnvironment:
    """One episode after another of an environment, whose actions are the methods of a subclass.

    `as_environment_factory` makes the subclass. TRL calls `reset` and `get_reward`; the model calls the others. A call
    that the environment refuses raises ValueError with the reason and leaves the episode as it was: TRL shows it to the
    model. So does a call after the episode's end. Where the environment itself fails, the episode ends without a
    reward, and TRL leaves it out.
    """

    _served: ClassVar[ServedEnvironment]
    _client_class: ClassVar[type[EnvClient[Any, Any, Any]]]
    _reset_keywords: ClassVar[Mapping[str, Any]]
    _reset_columns: ClassVar[Sequence[str]]
    _instructions: ClassVar[str]
    _group_size: ClassVar[int]
    _seed: ClassVar[int]
    _tool_name: ClassVar[str]
    _numbers: ClassVar["itertools.count[int]"]
    _lists_calls: ClassVar[bool]
    _server: ClassVar[ExitStack]

    def __init__(self) -> None:
        self._client = self._client_class(base_url=self._served.base_url, headers=dict(self._served.headers))
        self._number = next(self._numbers)
        self._num_resets = 0
        self.reward: float | None = 0.0
        """The rewards of the episode so far, added up; None after a failure of the environment."""
        self.done = True
        self.observation: Any = None

    def reset(self, **columns: Any) -> str:
        """Begin an episode; return what the model sees first. columns: of the row of TRL's dataset.

        TRL adds the text to the last message of `prompt`: two line breaks separate them. Columns that `reset_columns`
        names are keywords of the environment's reset. Without a seed among them, members of a group begin from equal
        seeds, and each group from another one.
        """
        given = {name: columns[name] for name in self._reset_columns if columns.get(name) is not None}
        group = self._num_resets * 1_000_003 + self._number // self._group_size
        self._num_resets += 1
        result = self._client.reset(**{"seed": (self._seed + group) % _SEEDS, **self._reset_keywords, **given})
        self.reward, self.done, self.observation = float(result.reward or 0.0), result.done, result.observation
        shown = "\n".join(part for part in (self._instructions, self._shown()) if part)
        return f"\n\n{shown}" if _has_text(columns.get("prompt")) else shown

    def get_reward(self) -> float | None:
        """The rewards of the episode, added up; None for one that the environment failed in."""
        return self.reward

    @classmethod
    def stop_server(cls) -> None:
        """End the server, if the factory has started one. The end of the program does so too."""
        cls._server.close()

    def _act(self, make: MakeAction, arguments: dict[str, Any]) -> str:
        """Take the action of a call. Raises ValueError for one that is refused, OpenEnvError for another failure."""
        if self.done:
            raise ValueError("the episode is over: no further call counts.")
        try:
            result = self._client.step(make(arguments))
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
            raise ValueError("; ".join(problems)) from error
        except OpenEnvError as error:
            if is_refused_action(error):
                raise ValueError(str(error)) from error
            self.done, self.reward = True, None
            log.warning("an episode has no reward, because the environment failed: %s", error)
            raise
        self.reward = (self.reward or 0.0) + float(result.reward or 0.0)
        self.done, self.observation = result.done, result.observation
        return self._shown()

    def _shown(self) -> str:
        """The observation in words, with the calls that are legal, or that the episode is over."""
        text, seen = self._served.text, self.observation
        described = text.describe(seen)
        if images_of(described):
            raise ValueError("the environment's observations are images, which a tool cannot return: give text=...")
        if self.done:
            return f"{described}\nThe episode is over. Its reward is {self.reward:g}."
        return "\n".join([str(described), *self._legal_calls()])

    def _legal_calls(self) -> list[str]:
        """Lines that list the legal calls with their meaning, where they can be counted, or the first of many."""
        if not self._lists_calls:
            return []
        replies = list(self._served.text.replies(self.observation).items())
        lines = [f"{arguments_text(action, self._tool_name)} : {word}" for word, action in replies[:_MOST_LISTED]]
        heading = f"{len(replies)} legal calls, such as:" if len(replies) > _MOST_LISTED else "legal calls:"
        return [heading, *lines] if lines else []


def _has_text(prompt: Any) -> bool:
    """Whether the last message of a prompt has content."""
    return bool(prompt and (prompt if isinstance(prompt, str) else prompt[-1]["content"]))


def as_environment_factory(
    environment: str | type[EnvClient[Any, Any, Any]],
    *,
    base_url: str | None = None,
    reset: Mapping[str, Any] | None = None,
    reset_columns: Sequence[str] = ("seed",),
    instructions: str = "",
    group_size: int = 1,
    seed: int = 0,
    text: str | None = None,
) -> type[ToolEnvironment]:
    """A class for `environment_factory`. Each instance has a session of one server, which is started if it has no URL.

    Args:
        environment: any name of an environment (`openenv.auto.resolver.FORMS`), or a client class, which needs
            base_url.
        reset: keywords of every reset.
        reset_columns: columns of the dataset that are keywords too.
        instructions: shown before the first observation.
        group_size: TRL's num_generations, so that a group plays from one seed.
        text: a text interface instead of the environment's own.

    Raises:
        LookupError: for an unknown name.
        ServerUnreachable: if the server does not answer.
        ValueError: for a class without base_url, or a tool whose name TRL cannot show.
    """
    if not isinstance(environment, str) and base_url is None:
        raise ValueError(f"{environment.__name__} needs base_url=..., or name its environment, such as 'echo'")
    if group_size < 1:
        raise ValueError(f"group_size={group_size}: give TRL's num_generations, 1 or more")
    named = named_environment(base_url or str(environment), text=text)
    with ExitStack() as on_error:
        server = on_error.enter_context(ExitStack())
        served = named.served_at(server.enter_context(named.running()), headers=token_headers())
        described = describe_server(served.base_url, headers=served.headers)
        client_class = served.client_class if isinstance(environment, str) else environment
        action_class = client_class._message_classes[0]
        methods = methods_of_tools(described.tools) or method_of_action(action_class, described.description)
        on_error.pop_all()
    atexit.register(server.close)
    name = client_class.__name__.removesuffix("Client").removesuffix("Env")
    fields = {
        "_served": served,
        "_client_class": client_class,
        "_reset_keywords": dict(reset or {}),
        "_reset_columns": tuple(reset_columns),
        "_instructions": instructions,
        "_group_size": group_size,
        "_seed": seed,
        "_tool_name": next(iter(methods)),
        "_numbers": itertools.count(),
        "_lists_calls": not any(map(takes_free_text, methods.values())),
        "_server": server,
    }
    return type(f"{name}Tools", (ToolEnvironment,), {**methods, **fields, "__doc__": described.description})
