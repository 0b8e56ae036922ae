"""Tasks of Harbor as an environment with tools: an agent works in a sandbox, and the tests score what it leaves."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, Tool
from openenv.core.env_server.runner.env_spec import EnvSpec, resolve_env_spec
from openenv.core.errors import ContainerFault
from openenv.dialects.harbor.box import BoxMachine, box_plan, sandbox_host
from openenv.dialects.harbor.container import ContainerMachine, engine
from openenv.dialects.harbor.dockerfile import NeedsEngine
from openenv.dialects.harbor.episode import MOST_COMMAND_S, MOST_STEPS, HarborEpisode, tools
from openenv.dialects.harbor.source import folder_of
from openenv.dialects.harbor.task import HarborTask, read_tasks
from openenv.dialects.tool_environment import MessageObservation, ToolCallingEnvironment, ToolOutcome
from openenv.envs.reset_values import refuse_other_keywords, require_choice, require_whole

_SPLIT = "train"
_RULES = "Do the task in its sandbox. When you call submit, its tests run once, and their reward ends the episode."
_MORE_S = 60.0
"""Of a step beside its command: preparing the tests, and reading what they wrote."""
ResultT = TypeVar("ResultT")


class HarborTasks:
    """The tasks of a name, and what each plays in."""

    def __init__(self, target: str, arguments: Mapping[str, Any]) -> None:
        """target: the path of a task or of a folder of tasks, or git+URL@COMMIT. arguments: `folder`, below it.

        Raises ContainerFault for a task that neither a sandbox nor an engine of this machine can play, ValueError for
        other arguments, and what `folder_of` and `read_tasks` raise.
        """
        if arguments.keys() - {"folder"}:
            raise ValueError(f"harbor:{target}: {', '.join(arguments)}: the only argument is folder=PATH, below it")
        self.by_name = read_tasks(folder_of(target, str(arguments.get("folder", ""))))
        """In alphabetic order."""
        self._in_container = {name for name, task in self.by_name.items() if _needs_container(task)}

    def begin(self, task: HarborTask, max_steps: int = MOST_STEPS) -> HarborEpisode:
        """A new episode. Raises ContainerFault where its sandbox or container cannot be started."""
        machine = ContainerMachine(task) if task.name in self._in_container else BoxMachine(task)
        return HarborEpisode(task, machine, max_steps)

    def played_in(self, task: HarborTask) -> str:
        """What a task plays in."""
        return "container" if task.name in self._in_container else "sandbox"

    @property
    def longest_s(self) -> float:
        """The longest that a reset or a step may take."""
        configs = [task.config for task in self.by_name.values()]
        commands = [min(MOST_COMMAND_S, config.agent.timeout_sec or MOST_COMMAND_S) for config in configs]
        ends = [config.verifier.timeout_sec for config in configs]
        builds = [config.environment.build_timeout_sec for config in configs]
        return max(max(map(sum, zip(commands, ends, strict=True))), *builds) + _MORE_S


def harbor_spec(target: str, arguments: Mapping[str, Any]) -> EnvSpec:
    """The specification of the environment of tasks. For arguments and errors see `HarborTasks`."""
    tasks = HarborTasks(target, arguments)
    spec = resolve_env_spec(
        lambda: HarborEnvironment(tasks),
        CallToolAction,
        CallToolObservation,
        name="Harbor",
        reset_observation_cls=MessageObservation,
    )
    spec.longest_s = tasks.longest_s
    return spec


class HarborEnvironment(ToolCallingEnvironment):
    """Tasks of Harbor. The reward of `submit` is what their tests write."""

    success_return = 1.0

    def __init__(self, tasks: HarborTasks) -> None:
        super().__init__("Harbor", _RULES)
        self._tasks = tasks
        self._episode: HarborEpisode | None = None
        self._thread = ThreadPoolExecutor(1, "harbor")

    async def tools(self) -> list[Tool]:
        """The functions of an agent."""
        return tools()

    async def begin(self, seed: int | None, keywords: Mapping[str, Any]) -> MessageObservation:
        """Begin a task in a new sandbox.

        seed: the number of the task, counted on from the first after the last. keywords: task, its name; max_steps,
        calls after which the tests run. Raises ValueError for others and for a name that no task has, and
        ContainerFault where no sandbox can be started.
        """
        given = dict(keywords)
        names, max_steps = list(self._tasks.by_name), given.pop("max_steps", MOST_STEPS)
        name = require_choice("task", given.pop("task", names[(seed or 0) % len(names)]), names)
        require_whole("max_steps", max_steps, 1, MOST_STEPS)
        refuse_other_keywords(given, ("task", "max_steps"))
        task = self._tasks.by_name[name]
        await self._blocking(lambda: self._begin(task, max_steps))
        metadata = {"task": name, "played_in": self._tasks.played_in(task)}
        return MessageObservation(message=task.instruction, metadata=metadata)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Take an action."""
        assert self._episode is not None
        episode = self._episode
        return await self._blocking(lambda: episode.call(name, arguments))

    def list_splits(self) -> list[dict[str, str]]:
        """The one split, which has all tasks."""
        return [{"name": _SPLIT, "type": _SPLIT}]

    def list_tasks(self, split: str) -> list[dict[str, str]]:
        """The reset keyword of each task, and its instruction. Raises LookupError for another split."""
        if split != _SPLIT:
            raise LookupError(f"split={split!r}: all tasks are in {_SPLIT}")
        return [{"task": name, "instruction": task.instruction} for name, task in self._tasks.by_name.items()]

    def num_tasks(self, split: str) -> int:
        """How many tasks there are."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, str]:
        """One of the tasks. Raises LookupError for a number that none has."""
        return self.list_tasks(split)[index]

    def close(self) -> None:
        """End the sandbox."""
        self._thread.shutdown(wait=False)
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def _begin(self, task: HarborTask, max_steps: int) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None
        self._episode = self._tasks.begin(task, max_steps)

    async def _blocking(self, work: Callable[[], ResultT]) -> ResultT:
        """Do it in the session's thread: a command takes as long as it likes, and other sessions go on."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _needs_container(task: HarborTask) -> bool:
    """Whether a sandbox of this machine cannot play the task, and an engine can. Raises ContainerFault if neither."""
    try:
        reason = _reason_for_image(task)
        if not reason:
            sandbox_host()
            return False
    except ContainerFault as error:
        reason = str(error)
    try:
        engine()
    except ContainerFault as error:
        raise ContainerFault(f"task {task.name} plays in a container alone: {reason}. No engine: {error}") from None
    return True


def _reason_for_image(task: HarborTask) -> str:
    """Why the task needs its image; empty where a sandbox does."""
    config = task.config
    if config.environment.docker_image is not None:
        return f"environment.docker_image is {config.environment.docker_image}"
    if config.environment.has_network:
        return "environment.network_mode asks for a network, and a sandbox has none"
    if config.agent.user is not None or config.verifier.user is not None:
        return "agent.user and verifier.user are users of an image"
    try:
        box_plan(task)
    except NeedsEngine as error:
        return str(error)
    return ""
