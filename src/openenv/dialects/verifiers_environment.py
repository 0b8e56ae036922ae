"""Environments of `verifiers` as environments of ours: `openenv serve verifiers:NAME`, and every command that plays.

Each episode is a rollout of verifiers' own, so that its dataset, its stop conditions and its rubric decide as they do
there. An environment with tools has these and one more, `reply`, for a message without a call.
"""

import importlib
import importlib.util
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool
from openenv.core.env_server.runner.env_spec import EnvSpec, resolve_env_spec
from openenv.dialects.tool_environment import (
    REPLY,
    MessageObservation,
    ReplyAction,
    ReplyEnvironment,
    ToolCallingEnvironment,
    ToolOutcome,
    reply_tool,
    unknown_tool,
)
from openenv.installation import install_line

SPLITS = ("train", "eval")


def verifiers_spec(name: str, arguments: Mapping[str, Any]) -> EnvSpec:
    """The specification of an environment of verifiers, which is loaded once for all sessions.

    name: as in `load_verifiers`. Raises ImportError without verifiers, and LookupError for a name that it cannot load.
    """
    environment = load_verifiers(name, arguments)
    return _spec_of(environment, Path(name).stem.replace("-", "_").title().replace("_", ""))


def spec_of_loader(load: Callable[[], Any], title: str) -> EnvSpec:
    """The specification of the environment that a function `load_environment` returns. Raises ImportError without
    verifiers."""
    with _signal_handlers_kept():
        return _spec_of(load(), title)


def _spec_of(environment: Any, title: str) -> EnvSpec:
    if environment.tool_defs:
        return resolve_env_spec(
            lambda: VerifiersToolEnvironment(environment, title),
            CallToolAction,
            CallToolObservation,
            name=title,
            reset_observation_cls=MessageObservation,
        )
    return resolve_env_spec(
        lambda: VerifiersEnvironment(environment, title), ReplyAction, MessageObservation, name=title
    )


def load_verifiers(name: str, arguments: Mapping[str, Any]) -> Any:
    """An environment of verifiers.

    name: of an installed environment, such as `wordle`; of a module with a function `load_environment`; or a file with
    one. arguments: of that function. Raises ImportError without verifiers, and LookupError for a name that it cannot
    load.
    """
    try:
        import verifiers
    except ImportError as error:
        raise ImportError(f"environments of verifiers need an extra: {install_line('verifiers')}") from error
    with _signal_handlers_kept():
        if name.endswith(".py"):
            load = _loader_of(Path(name))
            _check_arguments(name, load, arguments)
            return load(**arguments)
        try:
            return verifiers.load_environment(name, **arguments)
        except (ValueError, RuntimeError) as error:
            raise LookupError(f"verifiers:{name}: {error}") from error


class VerifiersEnvironment(ReplyEnvironment):
    """A single-turn or multi-turn environment: a reply is a message, an observation the messages that follow it."""

    def __init__(self, environment: Any, name: str) -> None:
        self._play = _Play(environment, name)
        super().__init__(name, self._play.rules)

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin with the row `seed` of the dataset, counted on from the first row after the last. split: train or
        eval."""
        return await self._play.begin(seed, keywords)

    async def reply(self, message: str) -> MessageObservation:
        """Send a reply."""
        return await self._play.reply(message)

    def close(self) -> None:
        """Give up the rollout."""
        self._play.cancel()


class VerifiersToolEnvironment(ToolCallingEnvironment):
    """An environment with tools."""

    def __init__(self, environment: Any, name: str) -> None:
        self._play = _Play(environment, name)
        super().__init__(name, self._play.rules)

    async def tools(self) -> list[Tool]:
        """The environment's tools and `reply`."""
        own = [
            Tool(name=tool.name, description=tool.description, input_schema=dict(tool.parameters))
            for tool in self._play.environment.tool_defs
        ]
        return [*own, reply_tool()]

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin with the row `seed` of the dataset."""
        return await self._play.begin(seed, keywords)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Send a message that calls a tool, or one that calls none."""
        known = {tool.name for tool in self._play.environment.tool_defs}
        if name == REPLY:
            said = await self._play.reply(str(arguments.get("message", "")))
        elif name in known:
            said = await self._play.reply("", (name, dict(arguments)))
        else:
            return unknown_tool(name, {*known, REPLY})
        return ToolOutcome(text=said.message, reward=said.reward, done=said.done, metadata=said.metadata)

    def close(self) -> None:
        """Give up the rollout."""
        self._play.cancel()


class _Play:
    """The episodes of one session."""

    def __init__(self, environment: Any, name: str) -> None:
        self.environment, self.name = environment, name
        self.rules = str(environment.system_prompt or "")
        self._rollout: Any = None

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin a rollout. Raises ValueError for other keywords than split."""
        from openenv.dialects.verifiers_rollout import SteppedRollout  # loads verifiers

        split = keywords.get("split", SPLITS[0])
        if keywords.keys() - {"split"} or split not in SPLITS:
            raise ValueError(f"{dict(keywords)}: a reset takes split, {' or '.join(SPLITS)}, and a seed")
        self.cancel()
        self._rollout = SteppedRollout(self.environment, self._row(seed or 0, split))
        return self._said(await self._rollout.begin())

    async def reply(self, content: str, call: tuple[str, dict[str, Any]] | None = None) -> MessageObservation:
        """Send a reply. Raises ValueError before the first reset."""
        if self._rollout is None:
            raise ValueError("there is no episode yet: call reset first")
        return self._said(await self._rollout.reply(content, call))

    def cancel(self) -> None:
        """Give up the rollout that runs."""
        if self._rollout is not None:
            self._rollout.cancel()

    def _row(self, seed: int, split: str) -> dict[str, Any]:
        has_own = split != SPLITS[0] or (self.environment.dataset is None and self.environment.dataset_source is None)
        rows = self.environment.get_eval_dataset() if has_own else self.environment.get_dataset()
        return dict(rows[seed % len(rows)])

    def _said(self, messages: list[dict[str, Any]] | None) -> MessageObservation:
        """The observation of new messages, or of the end. Raises RuntimeError where the rollout failed."""
        if messages is not None:
            shown = [m for m in messages if not (m["role"] == "system" and m.get("content") == self.rules)]
            return MessageObservation(message="\n\n".join(map(_text, shown)))
        output = self._rollout.output
        if output.get("error"):
            raise RuntimeError(f"the rollout of verifiers failed: {output['error']}")
        last = [message for message in (output.get("completion") or [])[-1:] if message["role"] != "assistant"]
        metadata = {"metrics": dict(output.get("metrics") or {}), "stop_condition": output.get("stop_condition")}
        return MessageObservation(
            message="\n\n".join(map(_text, last)), reward=output["reward"], done=True, metadata=metadata
        )


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message; parts that are no text are named."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part["text"]) if part.get("type") == "text" else f"[{part.get('type')}]" for part in content)


def _loader_of(path: Path) -> Any:
    """The function `load_environment` of a file."""
    if not path.is_file():
        raise LookupError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "load_environment"):
        raise LookupError(f"{path} has no function load_environment, which verifiers wants")
    return module.load_environment


def _check_arguments(name: str, load: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise LookupError, with the parameters that there are, unless the function takes these arguments."""
    parameters = inspect.signature(load)
    try:
        parameters.bind(**arguments)
    except TypeError as error:
        raise LookupError(f"verifiers:{name}: {error}; its parameters are {parameters}") from None


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """verifiers sets the handlers of SIGINT and SIGTERM for each environment; a server has its own.

    Raises RuntimeError outside the main thread, where verifiers cannot load an environment.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("verifiers loads environments in the main thread only: load it before starting threads")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
