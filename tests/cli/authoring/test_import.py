"""`openenv import` makes a package of an environment that was written for another one."""

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from openenv.auto.environment import named_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.errors import EnvironmentFault
from openenv.dialects.verifiers_environment import ReplyAction
from tests.cli.commands import OPENENV, run
from tests.integrations_table import Record

CLIFF = '''
import gymnasium as gym
import numpy as np
from board import SIZE


class Cliff(gym.Env):
    """Walk along the cliff."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, SIZE, (1,), np.int64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = (options or {}).get("place", int(self.np_random.integers(0, 4)))
        self.steps = 0
        return np.array([self.place]), {"action_mask": np.array([self.place > 0, True])}

    def step(self, action):
        self.place += 1 if action else -1
        self.steps += 1
        info = {"action_mask": np.array([self.place > 0, True])}
        return np.array([self.place]), float(self.place >= SIZE), self.place >= SIZE, self.steps >= 20, info
'''
OLD_GYM = '''
from random import Random


class Space:
    n = 3


class Dial:
    """No library: a class with Gym's methods of before version 0.26."""

    action_space = Space()

    def seed(self, seed):
        self.rng = Random(seed)

    def reset(self, width=9):
        self.goal, self.hand = self.rng.randrange(width), 0
        return {"hand": self.hand}

    def step(self, action):
        self.hand += action - 1
        return {"hand": self.hand}, 1.0 if self.hand == self.goal else 0.0, self.hand == self.goal, {"goal": self.goal}


class Board:
    """Not an environment."""

    def reset(self):
        return None
'''
ORS_PACKAGE = '''
import inspect
from types import SimpleNamespace


class Environment:
    """The members of openreward's class that a server calls."""

    def __init__(self, task_spec, secrets):
        self.task_spec, self.secrets = task_spec, secrets

    def setup(self):
        self.is_set_up = True

    async def teardown(self):
        self.is_set_up = False

    @classmethod
    async def num_tasks(cls, split):
        return len(cls.list_tasks(split))

    @classmethod
    async def get_task(cls, split, index):
        return cls.list_tasks(split)[index]

    @classmethod
    async def get_task_range(cls, split, start=None, stop=None):
        return cls.list_tasks(split)[start:stop]

    @classmethod
    def list_tools(cls):
        schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
        return SimpleNamespace(tools=[SimpleNamespace(name="answer", description="Give the sum.", input_schema=schema)])

    def list_task_tools(self):
        return SimpleNamespace(tools=[SimpleNamespace(name="hint", description=None, input_schema=None)])

    async def _call_tool(self, name, given):
        if name != "answer":
            return SimpleNamespace(root=SimpleNamespace(ok=False, error=f"{name} is no tool", reason="not_found"))
        return SimpleNamespace(root=SimpleNamespace(ok=True, output=self.answer(given)))
'''
SUMS = '''
from types import SimpleNamespace

import ors


class Sums(ors.Environment):
    """Add two numbers."""

    @classmethod
    def list_splits(cls):
        return ["train", {"name": "held_out", "type": "test"}]

    @classmethod
    def list_tasks(cls, split):
        return [{"a": n, "b": 2 * n} for n in range(5)]

    async def get_prompt(self):
        return [{"type": "text", "text": f"{self.task_spec['a']} + {self.task_spec['b']}?"}]

    def answer(self, given):
        is_right = given["number"] == sum(self.task_spec.values())
        block = {"type": "text", "text": "right" if is_right else "wrong"}
        return SimpleNamespace(blocks=[block], metadata=None, reward=float(is_right), finished=True)
'''
OPENREWARD_SUMS = '''
from openreward.environments import Environment, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class Answer(BaseModel):
    number: int


class Sums(Environment):
    """Add two numbers."""

    @classmethod
    def list_splits(cls):
        return ["train", "held_out"]

    @classmethod
    def list_tasks(cls, split):
        return [{"a": n, "b": 2 * n} for n in range(5)]

    def get_prompt(self):
        return [TextBlock(text=f"{self.task_spec['a']} + {self.task_spec['b']}?")]

    @tool
    async def answer(self, given: Answer) -> ToolOutput:
        """Give the sum."""
        is_right = given.number == self.task_spec["a"] + self.task_spec["b"]
        return ToolOutput(
            blocks=[TextBlock(text="right" if is_right else "wrong")], reward=float(is_right), finished=True
        )
'''


VERIFIERS_SUMS = '''
import verifiers as vf
from datasets import Dataset


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def load_environment(**kwargs):
    rows = Dataset.from_list([{"question": f"{n} + {n}", "answer": str(2 * n)} for n in range(2, 6)])

    def is_right(completion, answer):
        return float(str(completion[-1].content).strip() == answer)

    return vf.MADE(dataset=rows, rubric=vf.Rubric(funcs=[is_right]), **kwargs)
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with the source of an environment of Gymnasium, and with what no package needs."""
    folder = tmp_path / "cliff-walk"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text("")
    (folder / "board.py").write_text("SIZE = 6\n")
    (folder / "cliff.py").write_text(CLIFF)
    (folder / "secrets.yaml").write_text("key: s3cret")
    (folder / "requirements.txt").write_text(
        "# arrays\nnumpy>=2\n-r more.txt\nopenenv-rl==9\nx @ https://example.org/x\n"
    )
    return folder


def imported(source: Path, name: str, *options: str) -> Path:
    """Import a source beside it; return the package."""
    done = run("import", str(source), "--name", name, "--output-dir", str(source.parent), *options)
    assert done.returncode == 0, done.stderr
    return source.parent / name


def test_its_help_shows_an_example() -> None:
    assert "openenv import ./cliffs" in run("import", "--help").stdout.split("Example")[1]


def test_the_package_has_a_copy_of_the_source_and_what_it_needs(source: Path) -> None:
    folder = imported(source, "cliff_env")
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    project = tomllib.loads((folder / "pyproject.toml").read_text())

    assert written == {
        "README.md", "__init__.py", "client.py", "models.py", "openenv.yaml", "pyproject.toml", "server/Dockerfile",
        "server/__init__.py", "server/app.py", "server/environment.py", "tests/test_environment.py",
        "vendor/cliff_walk/board.py", "vendor/cliff_walk/cliff.py", "vendor/cliff_walk/requirements.txt",
    }  # fmt: skip
    assert project["project"]["dependencies"] == ["openenv-rl[gymnasium]", "numpy>=2"]
    assert project["tool"]["setuptools"]["package-data"] == {"cliff_env": ["openenv.yaml", "vendor/**/*"]}


def test_the_files_are_formatted_and_sorted(source: Path) -> None:
    imported(source, "cliff_env")
    ruff = [Path(sys.executable).with_name("ruff"), "--isolated", "--quiet"]
    for command in (["check", "--select=E,F,I,B,UP"], ["format", "--check"]):
        options = [*command[1:], "--line-length=120", "--exclude=vendor", "cliff_env"]
        done = subprocess.run(
            [ruff[0], command[0], *ruff[1:], *options], cwd=source.parent, capture_output=True, text=True
        )

        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.integration("command line", "openenv import of a Gymnasium environment, then check", package="gymnasium")
def test_every_check_of_an_imported_environment_passes(source: Path, record_property: Record) -> None:
    imported(source, "cliff_env")
    checked = subprocess.run(
        [*OPENENV, "check", "./cliff_env", "--json"], cwd=source.parent, capture_output=True, text=True, check=False
    )
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "cliff_env"], cwd=source.parent, check=False)

    rows = json.loads(checked.stdout)["rows"]
    statuses = {row["check"]: row["status"] for row in rows}
    assert {check for check, status in statuses.items() if status != "pass"} == {"snapshots"}, rows
    assert tested.returncode == 0
    record_property("figure", f"{list(statuses.values()).count('pass')} of {len(rows)} checks passed, 1 does not apply")


@pytest.mark.process
def test_an_imported_environment_is_played_by_its_typed_client(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = imported(source, "cliff_env")
    monkeypatch.syspath_prepend(str(folder.parent))
    package = import_module("cliff_env")
    with named_environment(str(folder)).running() as url, package.CliffEnv(base_url=url) as env:
        first = env.reset(seed=1, place=0).observation
        results = [env.step(package.CliffAction(value=1)) for _ in range(6)]
        env.reset()
        with pytest.raises(EnvironmentFault, match=r"not in the action space Discrete\(2\)"):
            env.step(package.CliffAction(value=5))

    assert (first.value, first.legal_actions) == ([0], [1])
    assert [result.reward for result in results] == [0.0] * 5 + [1.0]
    assert (results[-1].done, results[-1].observation.truncated) == (True, False)


@pytest.mark.process
def test_a_class_with_the_methods_of_gym_is_imported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "dials"
    (source / "games").mkdir(parents=True)
    (source / "games/dial.py").write_text(OLD_GYM)
    folder = imported(source, "dial_env")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = import_module("dial_env")
    with named_environment(str(folder)).running() as url, package.DialEnv(base_url=url) as env:
        goals = []
        for seed in (3, 3, 4):
            observation = env.reset(seed=seed, width=5).observation
            goals.append(env.step(package.DialAction(value=1)).observation.metadata["info"]["goal"])
        with pytest.raises(EnvironmentFault, match="reset of Dial does not take height"):
            env.reset(height=2)

    assert (observation.value, observation.legal_actions) == ({"hand": 0}, [0, 1, 2])
    assert goals[0] == goals[1] < 5


def _play_sums(folder: Path, tools: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Play the environment of sums; return the first prompt."""
    monkeypatch.syspath_prepend(str(folder.parent))
    package = import_module(folder.name)
    with named_environment(str(folder)).running() as url, package.SumsEnv(base_url=url) as env:
        first = env.reset(split="held_out", index=3)
        assert [tool.name for tool in env.list_tools()] == tools
        unknown = env.step(CallToolAction(tool_name="shout", arguments={})).observation
        last = env.step(CallToolAction(tool_name="answer", arguments={"number": 9}))
        state = env.state()
        prompts = [env.reset(seed=seed).observation.prompt for seed in (7, 7, 8)]
    assert unknown.error.error_type == "tool_not_found"
    assert (last.reward, last.done, last.observation.result["blocks"][0]["text"]) == (1.0, True, "right")
    assert (state.step_count, state.split, state.index) == (2, "held_out", 3)
    assert prompts == ["2 + 4?", "2 + 4?", "3 + 6?"]
    return first.observation.prompt


@pytest.mark.process
def test_an_environment_of_the_reward_standard_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "additions"
    (source / "ors").mkdir(parents=True)
    (source / "ors/__init__.py").write_text(ORS_PACKAGE)
    (source / "sums.py").write_text(SUMS)
    folder = imported(source, "sums_env", "--type", "ors")
    checked = run("validate", str(folder), "--level", "runtime", "--json")

    assert _play_sums(folder, ["answer", "hint"], monkeypatch) == "3 + 6?"
    assert {row["status"] for row in json.loads(checked.stdout)["rows"]} <= {"pass", "warn"}, checked.stdout


@pytest.mark.process
def test_an_environment_of_openreward_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openreward")
    (tmp_path / "rewarded").mkdir()
    (tmp_path / "rewarded/sums.py").write_text(OPENREWARD_SUMS)
    folder = imported(tmp_path / "rewarded", "sums_env")
    project = tomllib.loads((folder / "pyproject.toml").read_text())

    assert project["project"]["dependencies"] == ["openenv-rl", "openreward"]
    assert _play_sums(folder, ["answer"], monkeypatch) == "3 + 6?"


@pytest.mark.process
@pytest.mark.parametrize(("kind", "action"), [("single", {"message": "8"}), ("tools", {"a": 4, "b": 4})])
def test_an_environment_of_verifiers_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, action: dict[str, Any]
) -> None:
    source = tmp_path / "sums-of-two"
    source.mkdir()
    made = {"single": "SingleTurnEnv(", "tools": "ToolEnv(tools=[add], "}[kind]
    (source / "sums.py").write_text(VERIFIERS_SUMS.replace("MADE(", made))
    folder = imported(source, f"sums_{kind}_env", "--type", "verifiers")
    monkeypatch.syspath_prepend(str(tmp_path))
    client = vars(import_module(folder.name))[f"Sums{kind.capitalize()}Env"]
    with named_environment(str(folder)).running() as url, client(base_url=url) as env:
        first = env.reset(seed=2).observation.message
        if kind == "tools":
            env.call_tool("add", **action)
            result = env.step(CallToolAction(tool_name="reply", arguments={"message": "8"}))
        else:
            result = env.step(ReplyAction(**action))
    project = tomllib.loads((folder / "pyproject.toml").read_text())

    assert first == "4 + 4"
    assert (result.reward, result.done) == (1.0, True)
    assert project["project"]["dependencies"] == ["openenv-rl[verifiers]"]


def test_a_source_with_several_environments_is_imported_by_class(source: Path) -> None:
    others = "class Other(gymnasium.Env):\n    pass\n\n\nclass Further(Other):\n    pass\n"
    (source / "other.py").write_text(f"import gymnasium\n\n\n{others}")
    refused = run("import", str(source), "-n", "cliff_env", "-o", str(source.parent))
    folder = imported(source, "cliff_env", "--env-class", "cliff:Cliff")

    assert refused.returncode == 2
    for name in ("cliff:Cliff", "other:Other", "other:Further"):
        assert name in refused.stderr
    assert '"cliff", "Cliff"' in (folder / "server/environment.py").read_text()


def test_a_link_is_refused_and_nothing_is_written(source: Path) -> None:
    (source / "more").symlink_to("/etc")
    refused = run("import", str(source), "-n", "cliff_env", "-o", str(source.parent))

    assert refused.returncode == 1
    assert "more is a link" in refused.stderr
    assert not (source.parent / "cliff_env").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "Cliff-Env"], "use lower-case letters"),
        (["--type", "harbor"], "--type harbor: give one of gymnasium, ors, verifiers"),
        (["--type", "ors"], "has no environment"),
        (["--env-class", "Other"], "--env-class Other: give one of cliff:Cliff"),
        (["--output-dir", "cliff-walk/out"], "choose a folder outside"),
    ],
)
def test_arguments_that_name_no_environment_end_with_code_2(source: Path, options: list[str], words: str) -> None:
    defaults = {"--name": "cliff_env", "--output-dir": "."}
    options = [*options, *(part for pair in defaults.items() if pair[0] not in options for part in pair)]
    refused = run("import", "cliff-walk", *options, cwd=source.parent)

    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.replace("│", " ").split())
    assert {path.name for path in source.parent.iterdir()} == {"cliff-walk"}
