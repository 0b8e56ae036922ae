"""One episode of a task: what an agent may do in its sandbox, and the tests at the end."""

import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openenv.core.env_server.mcp_types import Tool, ToolErrorType
from openenv.dialects.harbor.machine import Command, CommandResult, Machine, MachineEnded, packed
from openenv.dialects.harbor.task import JSON, SOLUTION, TESTS, TEXT, VERIFIER, HarborTask, reward_of
from openenv.dialects.tool_environment import ToolOutcome

MOST_COMMAND_S = 600.0
MOST_STEPS = 10_000
_OUTPUT_BYTES, _FILE_BYTES, _LOG_CHARACTERS = 1 << 14, 1 << 16, 4000
_PREPARING_S = 60.0


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RunCommand(_Arguments):
    """Run a command of the shell in the working directory of the task. What it starts in the background runs on."""

    command: str = Field(max_length=1 << 16, description="Such as `ls -la`", examples=["ls", "pwd", "ls | head"])
    timeout_s: float = Field(default=60.0, gt=0, le=MOST_COMMAND_S, description="It is killed after so many seconds")


class ReadFile(_Arguments):
    """Read a text file."""

    path: str = Field(description="From the working directory, or absolute", examples=["README.md", "/tmp/notes.txt"])


class WriteFile(_Arguments):
    """Write a text file. It replaces one that is there; folders are made."""

    path: str = Field(description="From the working directory, or absolute", examples=["notes.txt", "/tmp/notes.txt"])
    content: str = Field(max_length=1 << 20, description="The whole text of the file", examples=["done\n"])


class Submit(_Arguments):
    """End the task: its tests run now, once, and give the reward."""


_ACTIONS: Mapping[str, type[_Arguments]] = {
    "run_command": RunCommand,
    "read_file": ReadFile,
    "write_file": WriteFile,
    "submit": Submit,
}


def tools() -> list[Tool]:
    """The functions of an agent."""
    return [
        Tool(name=name, description=(action.__doc__ or "").strip(), input_schema=action.model_json_schema())
        for name, action in _ACTIONS.items()
    ]


class HarborEpisode:
    """A task in a machine of its own. All methods block."""

    def __init__(self, task: HarborTask, machine: Machine, max_steps: int = MOST_STEPS) -> None:
        """max_steps: the last of so many calls ends the episode, as `submit` does."""
        self._task, self._machine = task, machine
        self._steps_left = max_steps
        limit_s = task.config.agent.timeout_sec
        self._deadline = None if limit_s is None else time.monotonic() + limit_s

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Take an action. After the last one that the task's time or `max_steps` allows, the tests run.

        Raises RuntimeError and ValueError for tests that give no reward: the episode then has no outcome.
        """
        self._steps_left -= 1
        try:
            outcome = self._acted(name, arguments)
            if outcome.done or (self._steps_left > 0 and self._time_left() > 0):
                return outcome
            return self._end(f"{outcome.text}\n" if outcome.text else "")
        except MachineEnded as error:
            return ToolOutcome(text=str(error), reward=0.0, done=True, metadata={"ended_by": str(error)})

    def solve(self) -> CommandResult:
        """Run the task's solution, as an agent without a model."""
        config = self._task.config
        self._machine.put(packed({"/solution": self._task.folder / "solution"}))
        command = Command(
            text=f"/{SOLUTION}",
            timeout_s=config.agent.timeout_sec or MOST_COMMAND_S,
            variables=config.solution.env,
            user=config.agent.user,
        )
        return self._machine.run(command)

    def close(self) -> None:
        """End the machine."""
        self._machine.close()

    def _acted(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        if name not in _ACTIONS:
            error = f"there is no tool {name!r:.80}. Tools: {', '.join(_ACTIONS)}"
            return ToolOutcome(error=error, error_type=ToolErrorType.TOOL_NOT_FOUND, reward=0.0)
        try:
            action = _ACTIONS[name].model_validate(arguments)
        except ValidationError as error:
            rows = (f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors())
            return ToolOutcome(error=f"{name}: {'; '.join(rows)}", error_type=ToolErrorType.INVALID_ARGS, reward=0.0)
        if isinstance(action, Submit):
            return self._end("")
        if self._time_left() <= 0:
            return ToolOutcome(text="The time of the task is over.")
        try:
            return ToolOutcome(text=self._done(action), reward=0.0)
        except OSError as error:
            return ToolOutcome(error=f"{name}: {error}", reward=0.0)

    def _done(self, action: _Arguments) -> str:
        """What a command has printed, or a file has. Raises OSError where the machine refuses it."""
        if isinstance(action, RunCommand):
            seconds = min(action.timeout_s, self._time_left())
            user = self._task.config.agent.user
            command = Command(text=action.command, timeout_s=seconds, user=user, output_bytes=_OUTPUT_BYTES)
            return _shown(self._machine.run(command), seconds)
        assert isinstance(action, ReadFile | WriteFile)
        path = str(PurePosixPath(self._machine.workdir, action.path))
        if isinstance(action, ReadFile):
            found = self._machine.read(path, _FILE_BYTES)
            if found is None:
                raise FileNotFoundError(f"there is no file {action.path}")
            return found.decode("utf-8", "replace")
        self._machine.put(packed({path: action.content.encode()}))
        return f"{action.path} has {len(action.content.encode())} bytes"

    def _end(self, text: str) -> ToolOutcome:
        """Run the tests, which no command has seen. Raises RuntimeError and ValueError where they give no reward."""
        config = self._task.config.verifier
        self._machine.run(Command(text=f"rm -rf /tests {VERIFIER}", timeout_s=_PREPARING_S))
        self._machine.put(packed({"/tests": self._task.folder / "tests"}, ("/logs", VERIFIER)))
        tests = Command(text=f"/{TESTS}", timeout_s=config.timeout_sec, variables=config.env, user=config.user)
        ran = self._machine.run(tests)
        task = self._task.name
        if ran.exit_code is None:
            raise RuntimeError(f"task {task}: {TESTS} ran for more than verifier.timeout_sec, {config.timeout_sec:g} s")
        files = [self._machine.read(f"{VERIFIER}/{name}", _FILE_BYTES) for name in (TEXT, JSON)]
        contents = [None if file is None else file.decode("utf-8", "replace") for file in files]
        try:
            reward, numbers = reward_of(task, *contents)
        except ValueError as error:
            raise RuntimeError(f"{error}. {TESTS} ended with code {ran.exit_code}: {_end_of(ran.output)}") from None
        metadata = {"task": task, "rewards": numbers, "tests": _end_of(ran.output)}
        return ToolOutcome(text=f"{text}reward: {reward:g}", reward=reward, done=True, metadata=metadata)

    def _time_left(self) -> float:
        return MOST_COMMAND_S if self._deadline is None else self._deadline - time.monotonic()


def _shown(ran: CommandResult, seconds: float) -> str:
    """A command's outputs and its end, for a model."""
    more = f"\n[{ran.num_left_out} more bytes are left out]" if ran.num_left_out else ""
    end = f"killed after {seconds:.0f} s" if ran.exit_code is None else f"exit code {ran.exit_code}"
    return f"{ran.output.rstrip()}{more}\n[{end}]".lstrip("\n")


def _end_of(output: str) -> str:
    return output[-_LOG_CHARACTERS:].strip()
