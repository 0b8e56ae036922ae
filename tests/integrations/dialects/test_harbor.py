"""Task directories of Harbor as environments, in real sandboxes and containers, and read by Harbor itself."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from openenv.auto.environment import named_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.errors import ContainerFault, EnvironmentFault
from openenv.dialects.harbor.box import sandbox_host
from openenv.dialects.harbor.dockerfile import NeedsEngine, plan_of
from openenv.dialects.harbor.environment import HarborTasks
from openenv.dialects.harbor.task import read_task, reward_of
from openenv.evaluation.quality.checks.solutions import check_solutions
from tests.chat_server import ChatService, call
from tests.cli.commands import run
from tests.integrations_table import Record

pytestmark = pytest.mark.process

TASKS = Path(__file__).parents[3] / "examples/harbor"
SUM, HELLO = "sum-column", "say-hello"
HARBOR = os.environ.get("HARBOR_PYTHON", ".venv-harbor/bin/python")
"""The Python of Harbor, which needs 3.12; `make .venv-harbor/.installed` makes it."""
READ = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from harbor.models.task.task import Task
from harbor.models.trial.paths import TrialPaths
from harbor.verifier.verifier import Verifier
task = Task(sys.argv[1])
config = task.config
found = {"instruction": task.instruction, "agent_s": config.agent.timeout_sec, "tests_s": config.verifier.timeout_sec,
         "memory_mb": config.environment.memory_mb, "rewards": []}
paths = TrialPaths(Path(sys.argv[2]))
paths.verifier_dir.mkdir(parents=True)
reader = SimpleNamespace(trial_paths=paths)
for name, text in json.loads(sys.argv[3]):
    path = paths.reward_json_path if name == "json" else paths.reward_text_path
    path.write_text(text)
    try:
        parse = Verifier._parse_reward_json if name == "json" else Verifier._parse_reward_text
        found["rewards"].append(parse(reader))
    except Exception as error:
        found["rewards"].append(None)
print(json.dumps(found))
"""


@pytest.fixture(autouse=True, scope="module")
def sandboxes() -> None:
    """Skips where no sandbox with namespaces can be made."""
    try:
        sandbox_host()
    except ContainerFault as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    with named_environment(f"harbor:{TASKS}").served() as found:
        yield found


@pytest.fixture
def env(served: Any) -> Iterator[Any]:
    with served.client() as client:
        yield client


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., Path]:
    """A copy of a task, whose files are replaced: by None, a file is removed."""

    def made(task: str = SUM, **files: str | None) -> Path:
        folder = tmp_path / "copied"
        shutil.copytree(TASKS / task, folder)
        for name, text in files.items():
            path = folder / {"toml": "task.toml", "instruction": "instruction.md", "docker": "environment/Dockerfile",
                             "tests": "tests/test.sh", "solution": "solution/solve.sh"}[name]  # fmt: skip
            path.unlink()
            if text is not None:
                path.write_text(text)
        return folder

    return made


def act(env: Any, name: str, **arguments: Any) -> Any:
    return env.step(CallToolAction(tool_name=name, arguments=arguments))


def shell(env: Any, command: str, **arguments: Any) -> str:
    result: str = act(env, "run_command", command=command, **arguments).observation.result
    return result


@pytest.mark.integration("dialects", "a task of Harbor by harbor:PATH, in a sandbox")
def test_an_agent_works_in_a_sandbox_and_the_tests_reward_it(env: Any, record_property: Record) -> None:
    first = env.reset(task=SUM).observation
    table = act(env, "read_file", path="prices.csv").observation.result
    total = shell(env, "awk -F, 'NR > 1 { sum += $2 } END { printf \"%.2f\", sum }' $TABLE | tee total.txt")
    ended = act(env, "submit")

    record_property("figure", f"reward {ended.reward}")
    assert first.message.startswith("The file /app/prices.csv has the columns"), "and no mark of the data set"
    assert first.metadata["task"] == SUM
    assert table.startswith("item,price\n")
    assert total == "48.60\n[exit code 0]"
    assert (ended.reward, ended.done) == (1.0, True)
    assert ended.observation.metadata["rewards"] == {"reward": 1.0}
    assert ended.observation.metadata["tests"] == "compared with the expected total"


def test_no_action_scores_0_and_each_episode_is_fresh(env: Any) -> None:
    env.reset(task=SUM)
    act(env, "write_file", path="/app/total.txt", content="48.60")
    env.reset(task=SUM)

    assert shell(env, "ls") == "prices.csv\n[exit code 0]"
    assert act(env, "submit").reward == 0.0


def test_what_an_agent_has_written_for_the_tests_is_removed(env: Any) -> None:
    env.reset(task=SUM)
    shell(
        env, "mkdir -p /logs/verifier; echo '{\"reward\": 1}' >/logs/verifier/reward.json; touch /tests/.mine /tests/x"
    )
    ended = act(env, "submit")

    assert (ended.reward, ended.observation.metadata["rewards"]) == (0.0, {"reward": 0.0})


def test_an_agent_sees_neither_the_tests_nor_the_solution_nor_the_machine(env: Any) -> None:
    env.reset(task=SUM)
    found = shell(env, "find / -name expected.txt -o -name test.sh -o -name solve.sh -o -name task.toml 2>/dev/null")
    network = shell(env, "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'")

    assert found == "[exit code 1]", "find itself may not look into all of /proc"
    assert str(TASKS.parent) not in shell(env, "env; ls -R / 2>/dev/null | head -200")
    assert "Network is unreachable" in network


def test_a_service_that_the_agent_has_started_runs_while_it_is_tested(env: Any) -> None:
    env.reset(task=HELLO)
    act(env, "write_file", path="server.py", content=(TASKS / HELLO / "solution/solve.sh").read_text().split("\n", 2)[2]
        .partition("SERVER\n")[0])  # fmt: skip
    shell(env, "python3 server.py & while ! [ -S /tmp/greeting.sock ]; do sleep 0.1; done")
    ended = act(env, "submit")

    assert (ended.reward, ended.observation.metadata["rewards"]) == (1.0, {"reward": 1.0, "bytes": 5})


def test_a_command_has_a_time_limit_and_a_limit_of_output(env: Any) -> None:
    env.reset(task=SUM)

    assert shell(env, "echo begun; sleep 60", timeout_s=0.5) == "begun\n[killed after 0 s]"
    assert shell(env, "yes | head -c 100000").endswith("[83616 more bytes are left out]\n[exit code 0]")
    assert shell(env, "pwd; exit 3") == "/app\n[exit code 3]", "the sandbox goes on"


def test_an_action_that_cannot_be_taken_is_answered_and_the_episode_goes_on(env: Any) -> None:
    env.reset(task=SUM)
    problems = [
        act(env, "no_such_tool"),
        act(env, "run_command", order="ls"),
        act(env, "read_file", path="absent.txt"),
        act(env, "write_file", path="/usr/bin/ls", content=""),
    ]
    kinds = [one.observation.error.error_type for one in problems]
    messages = [one.observation.error.message for one in problems]

    assert kinds == ["tool_not_found", "invalid_args", "execution_error", "execution_error"]
    assert messages[0].endswith("Tools: run_command, read_file, write_file, submit")
    assert messages[1].startswith("run_command: command: Field required; order: Extra inputs")
    assert messages[2] == "read_file: there is no file absent.txt"
    assert "Read-only file system" in messages[3] or "Permission denied" in messages[3]
    assert not any(one.done for one in problems)


def test_the_last_call_that_is_allowed_ends_the_episode(env: Any) -> None:
    env.reset(task=SUM, max_steps=2)

    assert not act(env, "run_command", command="echo 48.60 > total.txt").done
    assert act(env, "run_command", command="pwd").reward == 1.0


def test_a_sandbox_that_its_agent_ends_scores_0(env: Any) -> None:
    env.reset(task=SUM)
    ended = act(env, "run_command", command="kill -9 -1")

    assert (ended.reward, ended.done) == (0.0, True)
    assert "the sandbox has ended" in ended.observation.metadata["ended_by"]
    assert env.reset(task=SUM).observation.metadata["task"] == SUM


def test_the_agents_time_ends_the_episode_with_the_tests(copy: Callable[..., Path]) -> None:
    tasks = HarborTasks(str(copy(toml="[agent]\ntimeout_sec = 1.0\n")), {})
    (task,) = tasks.by_name.values()
    episode = tasks.begin(task)
    ended = episode.call("run_command", {"command": "echo 48.60 > total.txt; sleep 60"})
    episode.close()

    assert (ended.reward, ended.done) == (1.0, True)
    assert ended.text == "[killed after 1 s]\nreward: 1"


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("exit 1", "task copied: tests/test.sh wrote neither reward.txt nor reward.json in"),
        ("echo well > /logs/verifier/reward.txt", r"reward.txt has 'well\\n'. Write one number, such as 1 or 0.5"),
        ("sleep 60", r"tests/test.sh ran for more than verifier.timeout_sec, 1 s"),
    ],
)
def test_tests_without_a_reward_are_a_fault_and_no_reward_of_0(
    tests: str, problem: str, copy: Callable[..., Path]
) -> None:
    folder = copy(toml="[verifier]\ntimeout_sec = 1.0\n", tests=tests)
    with named_environment(f"harbor:{folder}").served() as served, served.client() as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match=problem):
            act(env, "submit")
        assert env.reset().observation.metadata["task"] == "copied"


def test_a_folder_of_tasks_is_served_by_the_task_api(served: Any, env: Any) -> None:
    tasks = httpx.post(f"{served.base_url}/Harbor/tasks", json={"split": "train"}).json()["tasks"]
    by_seed = [env.reset(seed=seed).observation.metadata["task"] for seed in (0, 1, 2)]

    assert [task["task"] for task in tasks] == [HELLO, SUM]
    assert by_seed == [HELLO, SUM, HELLO]
    with pytest.raises(EnvironmentFault, match="task='none': expected one of say-hello, sum-column"):
        env.reset(task="none")


def test_a_step_may_take_as_long_as_the_tasks_allow() -> None:
    named = replace(named_environment(f"harbor:{TASKS}"), options=("--step-timeout-s", "0.5"))
    with named.served() as served, served.client(message_timeout_s=1.0) as env:
        env.reset(task=SUM)

        assert shell(env, "sleep 2; echo slept") == "slept\n[exit code 0]"


@pytest.mark.integration("dialects", "a model does a task of Harbor by openenv eval with tool calls")
def test_a_model_calls_the_functions(
    serving: Callable[[FastAPI], str], tmp_path: Path, record_property: Record
) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        is_written = body["messages"][-1]["role"] == "tool"
        return call("submit", {}) if is_written else call("write_file", {"path": "total.txt", "content": "48.60"})

    service = ChatService(reply)
    policy = f"llm:tiny@{serving(service.app())}/v1"
    done = run("eval", f"harbor:{TASKS / SUM}", "--policy", policy, "--episodes", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)

    record_property("figure", f"mean return {row['mean_return']}")
    names = [tool["function"]["name"] for tool in service.bodies[0]["tools"]]
    assert names == ["run_command", "read_file", "write_file", "submit"]
    assert all(tool["function"]["description"] for tool in service.bodies[0]["tools"])
    assert (row["mean_return"], row["mean_steps"]) == (1.0, 2.0)


def test_the_check_requires_1_for_the_solution_and_0_for_no_action(copy: Callable[..., Path]) -> None:
    good = check_solutions(f"harbor:{TASKS}", float("inf"), lambda name: None)
    wrong = copy(solution="#!/bin/sh\necho nothing was done\n", tests="echo 0.5 > /logs/verifier/reward.txt")
    bad = check_solutions(f"harbor:{wrong}", float("inf"), lambda name: None)

    assert [(row.check, row.result.status) for row in good] == [("solution", "pass"), ("no action", "pass")]
    assert good[0].result.seen == "its solution scores 1 in 2 of 2 tasks"
    assert [row.result.status for row in bad] == ["fail", "fail"]
    assert "task copied, its solution: the reward is 0.5. solution/solve.sh: nothing was done" in bad[0].result.seen
    assert "task copied, doing nothing: the reward is 0.5" in bad[1].result.seen


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"toml": None}, "copied: there is no task.toml: an empty one is enough"),
        ({"toml": "[agent"}, "task.toml is not TOML: "),
        ({"toml": "[agent]\ntimeout_sec = 'long'"}, "task.toml: agent.timeout_sec: Input should be a valid number"),
        ({"toml": "[verifier]\ntimeout_sec = -1"}, "verifier.timeout_sec: Input should be greater than 0, not -1"),
        ({"toml": "[environment]\nmemory = '2G'"}, "environment.memory: write memory_mb, a number of MiB"),
        ({"toml": "[environment]\nnetwork_mode = 'allowlist'"}, "environment.network_mode: Input should be 'no-netw"),
        ({"toml": "[environment]\ngpus = 1"}, "environment.gpus: Input should be 0, not 1"),
        ({"toml": "[[steps]]\nname = 'one'"}, "steps: tasks of several steps are not played"),
        ({"toml": "[verifier.env]\nKEY = '${KEY}'"}, "verifier.env.KEY is '${KEY}': this machine's variables are not"),
        ({"instruction": None}, "copied: there is no instruction.md: write there what the agent is to do"),
        ({"tests": None}, "there is no tests/test.sh: write a script that writes the reward to /logs/verifier/reward"),
        ({"docker": None}, "there is no environment/Dockerfile: write one, or environment.docker_image"),
    ],
)
def test_a_broken_task_is_an_error_that_names_the_file_and_the_remedy(
    files: dict[str, str | None], problem: str, copy: Callable[..., Path]
) -> None:
    done = run("serve", f"harbor:{copy(**files)}")

    assert (done.returncode, problem in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_without_tasks_and_a_wrong_argument_are_errors(tmp_path: Path) -> None:
    for name, problem in (
        (f"harbor:{tmp_path}", "neither it nor a folder in it has a task.toml"),
        (f"harbor:{tmp_path}/none", "there is no such folder"),
        (f"harbor:{TASKS}?folder=../..", "folder='../..' leads out of it"),
        (f"harbor:{TASKS}?file=a", "the only argument is folder=PATH"),
    ):
        done = run("serve", name)
        assert (done.returncode, problem in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("text", "json_text", "expected"),
    [
        ("0.5\n", None, 0.5),
        ("1", '{"reward": 0, "speed": 3}', 0.0),
        (None, '{"accuracy": 0.25}', 0.25),
        ("nan", None, "Write a finite number"),
        ("", None, "Write one number"),
        (None, "[1]", "Write an object"),
        (None, '{"reward": "1"}', "'reward' is '1'. Write a finite number"),
        (None, '{"a": 1, "b": 0}', "no `reward`: name the number that is the reward"),
    ],
)
def test_a_reward_is_one_finite_number(text: str | None, json_text: str | None, expected: float | str) -> None:
    if isinstance(expected, float):
        assert reward_of("one", text, json_text)[0] == expected
        return
    with pytest.raises(ValueError, match=expected):
        reward_of("one", text, json_text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FROM debian:13\nRUN apt-get update && \\\n  apt-get install -y gcc", "line 2: RUN apt-get update"),
        ("FROM debian:13\n# a note\n\nCOPY \\\n  a.txt b.txt /app/\nUSER tester", "line 6: USER tester"),
        ("FROM ghcr.io/some/tools", "line 1: FROM ghcr.io/some/tools: the files of that image are unknown"),
        ("FROM debian:13 AS one\nFROM debian:13", "line 2: FROM debian:13: it builds in several stages"),
        ("FROM debian:13\nCOPY a.txt /usr/lib/", "line 2: COPY a.txt /usr/lib/: /usr/lib is not a directory that"),
        ("FROM debian:13\nCOPY --from=other a.txt /app/", "line 2: COPY --from=other a.txt /app/: --from is an option"),
        ("FROM debian:13\nCOPY ../secret /app/", "there is no ../secret"),
        ("FROM debian:13\nENV A=$HOME", "line 2: ENV A=$HOME: its variables are those of a build"),
    ],
)
def test_a_dockerfile_that_installs_something_needs_an_engine(text: str, problem: str, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "Dockerfile").write_text(text)

    with pytest.raises(NeedsEngine) as raised:
        plan_of(tmp_path / "Dockerfile")
    assert problem in str(raised.value)


def test_a_dockerfile_that_copies_files_is_followed_without_an_engine(tmp_path: Path) -> None:
    (tmp_path / "data/inner").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "data/c.txt", "data/inner/d.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "Dockerfile").write_text(
        'FROM docker.io/library/python:3.12\nENV A=1 "B=2 3"\nENV C 4\nWORKDIR /app\nWORKDIR src\nCOPY a.txt one.txt\n'
        'COPY ["b.txt", "./"]\nCOPY data /data\nCOPY *.txt /all/\nCMD ["sh"]\n'
    )
    plan = plan_of(tmp_path / "Dockerfile")

    assert plan.variables == {"A": "1", "B": "2 3", "C": "4"}
    assert (plan.workdir, plan.directories) == ("/app/src", {"/app", "/data", "/all"})
    assert {target: path.relative_to(tmp_path).as_posix() for target, path in plan.files.items()} == {
        "/app/src/one.txt": "a.txt",
        "/app/src/b.txt": "b.txt",
        "/data/c.txt": "data/c.txt",
        "/data/inner": "data/inner",
        "/all/a.txt": "a.txt",
        "/all/b.txt": "b.txt",
    }


def test_a_task_that_needs_an_engine_names_the_instruction_where_none_is(
    copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    folder = copy(docker="FROM debian:13\nRUN apt-get install -y gcc\n")
    done = run("serve", f"harbor:{folder}")

    assert done.returncode == 1
    assert "task copied plays in a container alone: " in done.stderr
    assert "Dockerfile, line 2: RUN apt-get install -y gcc: it changes what is installed" in done.stderr
    assert "Is Docker installed, is its engine running" in done.stderr


def test_the_tasks_of_a_commit_are_fetched_and_another_commit_is_refused(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    shutil.copytree(TASKS, tmp_path / "tasks")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "Tasks")
    commit, url = git("rev-parse", "HEAD"), f"git+file://{tmp_path}"
    (tmp_path / "tasks" / SUM / "instruction.md").write_text("changed since\n")

    (task,) = HarborTasks(f"{url}@{commit}", {"folder": f"tasks/{SUM}"}).by_name.values()
    assert task.instruction == read_task(TASKS / SUM).instruction
    for name, problem in (
        (f"harbor:{url}@{'0' * 40}", f"Does file://{tmp_path} have {'0' * 40}"),
        (f"harbor:{url}@{commit[:8]}", "with the whole commit, 40 hexadecimal digits"),
        (f"harbor:{url}@main", "with the whole commit, 40 hexadecimal digits"),
    ):
        done = run("serve", name)
        assert (done.returncode, problem in done.stderr) == (1, True), done.stderr


@pytest.mark.integration("dialects", "a task of Harbor whose image is built, in a container")
def test_a_task_whose_dockerfile_installs_plays_in_a_container(
    engine: Any, copy: Callable[..., Path], record_property: Record
) -> None:
    dockerfile = "FROM echo-env\nWORKDIR /work\nRUN echo installed > /opt-tool\nCMD []\n"
    script = (
        '#!/bin/sh\n[ "$(cat note.txt)" = right ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\ncat /opt-tool'
    )
    tasks = HarborTasks(str(copy(docker=dockerfile, tests=script, solution="#!/bin/sh\necho right > note.txt\n")), {})
    (task,) = tasks.by_name.values()
    episode = tasks.begin(task)
    try:
        seen = episode.call("run_command", {"command": "pwd; cat /opt-tool; ls /tests; sleep 60 & echo $?"})
        killed = episode.call("run_command", {"command": "echo begun; sleep 61", "timeout_s": 1})
        left = episode.call("run_command", {"command": "cat /proc/[0-9]*/cmdline"})
        written = episode.call("write_file", {"path": "note.txt", "content": "right"})
        read = episode.call("read_file", {"path": "note.txt"})
        absent = episode.call("read_file", {"path": "absent.txt"})
        network = episode.call("run_command", {"command": "cat /proc/net/route"})
        ended = episode.call("submit", {})
    finally:
        episode.close()
    rows = check_solutions(f"harbor:{task.folder}", float("inf"), lambda name: None)

    record_property("figure", f"reward {ended.reward}")
    assert tasks.played_in(task) == "container"
    assert "/work\ninstalled\n" in seen.text
    assert seen.text.endswith("0\n[exit code 0]")
    assert killed.text == "begun\n[killed after 1 s]"
    assert "sleep\x0060" in left.text, "programs of other commands run on"
    assert "sleep\x0061" not in left.text
    assert (written.text, read.text) == ("note.txt has 5 bytes", "right")
    assert absent.error == "read_file: there is no file absent.txt"
    assert len(network.text.splitlines()) == 2, "the names of the columns, and the exit code"
    assert (ended.reward, ended.metadata["tests"]) == (1.0, "installed")
    assert [row.result.status for row in rows] == ["pass", "pass"]
    assert not engine.containers.list(all=True, filters={"name": "harbor-copied"})


@pytest.mark.integration("dialects", "tasks and files of rewards, as Harbor's own classes read them")
@pytest.mark.skipif(not Path(HARBOR).is_file(), reason="no .venv-harbor: it needs Python 3.12")
def test_harbor_reads_the_same_of_a_task_and_of_rewards(tmp_path: Path, record_property: Record) -> None:
    files = [("text", "0.5\n"), ("text", "well"), ("text", "inf"), ("text", ""), ("json", '{"reward": 1, "size": 3}'),
             ("json", '{"reward": "1"}'), ("json", "{"), ("json", '{"reward": 1e999}')]  # fmt: skip
    command = [HARBOR, "-c", READ, str(TASKS / SUM), str(tmp_path / "trial"), json.dumps(files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found, task = json.loads(done.stdout.splitlines()[-1]), read_task(TASKS / SUM)

    def rewards(kind: str, text: str) -> dict[str, float] | None:
        try:
            return reward_of("one", *((None, text) if kind == "json" else (text, None)))[1]
        except ValueError:
            return None

    record_property("figure", f"{len(files)} files of rewards")
    config = task.config
    assert found["instruction"] == task.instruction
    assert (found["agent_s"], found["tests_s"]) == (config.agent.timeout_sec, config.verifier.timeout_sec)
    assert found["memory_mb"] == config.environment.memory_mb
    assert found["rewards"] == [rewards(*file) for file in files]
