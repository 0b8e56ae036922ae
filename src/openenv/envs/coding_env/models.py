"""Action, observation and state of the coding environment."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.env_server.types import Action, Observation, State

LONGEST_CODE = 100_000


class CodeAction(Action):
    """A program to run in the interpreter of the episode."""

    code: str = Field(max_length=LONGEST_CODE, description="Python, or commands of the shell")
    language: Literal["python", "shell"] = Field(default="python", description="shell: only where the server allows it")


class CodeObservation(Observation):
    """What a program wrote, and how it ended. The metadata of a first observation has the packages and the seed."""

    prompt: str = Field(default="", description="The task; empty where there is none")
    stdout: str = Field(default="", description="What the program wrote, at most 64 KiB")
    stderr: str = Field(default="", description="What it wrote to the other output, such as the text of an exception")
    exit_code: int = Field(default=0, description="0 after success, 1 after an exception, or that of the program")
    value: str = Field(default="", description="Representation of the last expression; empty for None")
    stopped: str = Field(
        default="",
        description="Why the program was stopped: time limit, output limit, out of memory, a signal; empty if it was "
        "not. All but the time limit end the interpreter, and its variables are lost",
    )
    is_cut: bool = Field(default=False, description="Whether an output was longer than what is here")
    files: dict[str, int] = Field(default={}, description="Sizes in bytes of the files in the working directory")
    tests_passed: int = Field(default=0, description="Tests of the task that pass after this program")
    tests_total: int = Field(default=0, description="Tests of the task")


class CodeTest(BaseModel):
    """A test of a task: an expression, and the value that it must have. Neither is shown to the program before."""

    model_config = ConfigDict(extra="forbid")

    call: str = Field(max_length=10_000, description="A Python expression, such as f(3)")
    expected: Any = Field(description="Its value, as JSON")


class CodeState(State):
    """The task of an episode, and how its latest program ended."""

    task: str = ""
    """Name of the task; `own` for tests that came with the reset; empty where there is none."""
    seed: int | None = None
    """Determines the task and the arguments of its tests."""
    last_exit_code: int = 0
    max_steps: int | None = None
    """Programs after which the episode is done; None: no limit."""
