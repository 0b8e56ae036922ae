"""A task directory of Harbor: `task.toml`, `instruction.md`, `environment/`, `tests/test.sh`, `solution/solve.sh`."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from openenv.formats.text_file import read_utf8

CONFIG, INSTRUCTION, TESTS, SOLUTION = "task.toml", "instruction.md", "tests/test.sh", "solution/solve.sh"
VERIFIER = "/logs/verifier"
TEXT, JSON = "reward.txt", "reward.json"
"""Files in which the tests write the reward, in VERIFIER."""
_CANARY = re.compile(r"(?:\s*(?:<!--.*canary.*-->|#.*canary.*)\n)*\s*", re.IGNORECASE)
"""Lines at the beginning of an instruction that mark it for filters of training data, and that no agent sees."""
_DEFAULT_VALUE = re.compile(r"\$\{\w+:-([^}]*)\}")
_OTHER_WAYS = {
    "steps": "tasks of several steps are not played: make a task of each step",
    "environment.tpu": "TPUs are not given to a sandbox: leave it out",
    "environment.mcp_servers": "MCP servers of a task are not started: leave it out",
    "environment.healthcheck": "health checks are not run: start what the task needs in its Dockerfile",
    "environment.memory": "write memory_mb, a number of MiB",
    "environment.storage": "write storage_mb, a number of MiB",
    "agent.network_mode": "the network is that of [environment]: leave it out",
    "verifier.network_mode": "the network is that of [environment]: leave it out",
    "verifier.environment": "tests run in the agent's sandbox: leave it out",
    "verifier.collect": "tests run in the agent's sandbox: read there what it would collect",
}
"""Fields of task.toml that change what a task is and are not followed, with what to write instead."""
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Variables = dict[str, str]


class _Agent(BaseModel):
    timeout_sec: _Seconds | None = None
    user: str | int | None = None


class _Verifier(BaseModel):
    timeout_sec: _Seconds = 600.0
    env: _Variables = {}
    user: str | int | None = None
    environment_mode: Literal["shared"] = "shared"


class _Environment(BaseModel):
    build_timeout_sec: _Seconds = 600.0
    docker_image: str | None = None
    os: Literal["linux"] = "linux"
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    memory_mb: Annotated[int, Field(ge=16)] = 2048
    storage_mb: Annotated[int, Field(ge=1)] = 1024
    gpus: Literal[0] = 0
    env: _Variables = {}
    workdir: Annotated[str, Field(pattern="^/")] | None = None
    network_mode: Literal["no-network", "public"] = "no-network"
    """The standard's own default is a public network."""
    allow_internet: bool = False

    @property
    def has_network(self) -> bool:
        return self.network_mode == "public" or self.allow_internet


class _Solution(BaseModel):
    env: _Variables = {}


class TaskConfig(BaseModel):
    """The fields of task.toml that are followed. Others say something about the task, such as its authors."""

    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    environment: _Environment = _Environment()
    solution: _Solution = _Solution()


@dataclass(frozen=True, kw_only=True)
class HarborTask:
    """A task. Its files are read, and nothing of it has run."""

    name: str
    folder: Path
    instruction: str
    config: TaskConfig

    @property
    def context(self) -> Path:
        """The folder of its Dockerfile and of the files that this copies."""
        return self.folder / "environment"

    @property
    def has_solution(self) -> bool:
        """Whether it has a solution that can be run."""
        return (self.folder / SOLUTION).is_file()


def read_tasks(folder: Path) -> dict[str, HarborTask]:
    """The task of a folder, or those of the folders in it, by name in alphabetic order.

    Raises LookupError for a folder without a task, and what `read_task` raises.
    """
    if not folder.is_dir():
        raise LookupError(
            f"harbor:{folder}: there is no such folder. Give that of a task, or one with folders of tasks"
        )
    if (folder / CONFIG).exists() or (folder / INSTRUCTION).exists():
        folders = [folder]
    else:
        folders = sorted(path for path in folder.iterdir() if (path / CONFIG).is_file())
    if not folders:
        raise LookupError(f"harbor:{folder}: neither it nor a folder in it has a {CONFIG}. A task begins with one")
    return {path.resolve().name: read_task(path) for path in folders}


def read_task(folder: Path) -> HarborTask:
    """The task of a folder. Raises LookupError for a file that it lacks, and ValueError that names the wrong field."""
    folder = folder.resolve()
    try:
        written = tomllib.loads(_text(folder, CONFIG, "an empty one is enough"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{folder / CONFIG} is not TOML: {error}. Correct that line") from None
    instruction = _text(folder, INSTRUCTION, "write there what the agent is to do")
    _text(folder, TESTS, f"write a script that writes the reward to {VERIFIER}/{TEXT}")
    config = _config(folder / CONFIG, written)
    if config.environment.docker_image is None and not (folder / "environment/Dockerfile").is_file():
        raise LookupError(f"{folder}: there is no environment/Dockerfile: write one, or environment.docker_image")
    if any((folder / "environment").glob("docker-compose.y*ml")):
        raise ValueError(f"{folder}/environment: containers of Docker Compose are not started. Make one Dockerfile")
    return HarborTask(
        name=folder.name, folder=folder, instruction=instruction[_canary_end(instruction) :], config=config
    )


def reward_of(task: str, text: str | None, json_text: str | None) -> tuple[float, dict[str, float]]:
    """The reward that the tests have written, and all numbers beside it.

    text, json_text: the contents of the two files; None for one that is not there. Raises ValueError that names the
    file and what is wrong.
    """
    if json_text is not None:
        return _reward_of_json(f"task {task}: {JSON}", json_text)
    if text is None:
        raise ValueError(
            f"task {task}: {TESTS} wrote neither {TEXT} nor {JSON} in {VERIFIER}. It must, also on failure"
        )
    try:
        reward = float(text)
    except ValueError:
        raise ValueError(f"task {task}: {TEXT} has {text!r:.80}. Write one number, such as 1 or 0.5") from None
    if not math.isfinite(reward):
        raise ValueError(f"task {task}: {TEXT} has {reward}. Write a finite number")
    return reward, {"reward": reward}


def _reward_of_json(where: str, text: str) -> tuple[float, dict[str, float]]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f'{where} is not JSON: {error}. Write an object such as {{"reward": 1}}') from None
    if not isinstance(found, dict) or not found:
        raise ValueError(f'{where} has {text!r:.80}. Write an object such as {{"reward": 1}}')
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{where}: {key!r} is {value!r:.80}. Write a finite number")
    if "reward" not in found and len(found) > 1:
        raise ValueError(f"{where} has {', '.join(found)} and no `reward`: name the number that is the reward")
    return float(found["reward"] if "reward" in found else next(iter(found.values()))), found


def _canary_end(instruction: str) -> int:
    match = _CANARY.match(instruction)
    return 0 if match is None else match.end()


def _text(folder: Path, name: str, remedy: str) -> str:
    """The text of a file of a task. Raises LookupError for one that is missing, ValueError for one elsewhere."""
    path = folder / name
    if not path.is_file():
        raise LookupError(f"{folder}: there is no {name}: {remedy}")
    if not path.resolve().is_relative_to(folder):
        raise ValueError(f"{path} is a link that leads out of the task. Copy the file")
    return read_utf8(path)


def _config(path: Path, written: Mapping[str, Any]) -> TaskConfig:
    for field, remedy in _OTHER_WAYS.items():
        section, _, key = field.rpartition(".")
        table = written.get(section) if section else written
        if isinstance(table, dict) and table.get(key):
            raise ValueError(f"{path}: {field}: {remedy}")
    try:
        config = TaskConfig.model_validate(written)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path}: {field}: {first['msg']}, not {first['input']!r:.80}") from None
    for section in ("environment", "verifier", "solution"):
        variables = getattr(config, section).env
        for name, value in variables.items():
            variables[name] = _DEFAULT_VALUE.sub(r"\1", value)
            if "${" in variables[name]:
                raise ValueError(
                    f"{path}: {section}.env.{name} is {value!r}: this machine's variables are not passed on. Write the "
                    "value, or a default as in ${NAME:-value}"
                )
    return config
