"""The coding environment behind a real server: programs, limits, files, tests, and what cannot be forged."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from openenv.core.errors import ContainerFault, EnvironmentFault
from openenv.envs.coding_env import CodeAction, CodeObservation, CodingEnv
from openenv.envs.coding_env.problems import ALL, NAMES, expected_values, make_problem
from openenv.envs.coding_env.text import CodingText
from openenv.hosting.local_process import LocalServer
from openenv.hosting.sandbox.sandbox import SandboxHost
from tests.envs.coding_env.test_session import PIPE
from tests.hostile.bystanders import left_of

pytestmark = pytest.mark.process

TEXT = CodingText()
LIMITS = ["--seconds", "1", "--memory-mb", "128", "--processes", "16", "--packages", "numpy", "--shell"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    try:
        SandboxHost().close()
    except ContainerFault as error:
        pytest.skip(str(error))
    with LocalServer("openenv.envs.coding_env.server.app", LIMITS) as server:
        yield server.base_url


def run(env: CodingEnv, code: str, language: str = "python") -> CodeObservation:
    return env.step(CodeAction(code=code, language=language)).observation  # type: ignore[arg-type]


def test_variables_and_files_stay_from_step_to_step(url: str) -> None:
    with CodingEnv(base_url=url) as env:
        first = env.reset(files={"rows.csv": "1,2\n3,4\n", "more/x.txt": "x"}).observation
        run(env, "rows = open('rows.csv').read().split()")
        second = run(env, "open('out.txt', 'w').write('abc')\nlen(rows)")

    assert first.files == {"rows.csv": 8}
    assert second.value == "2"
    assert second.files == {"out.txt": 3, "rows.csv": 8}
    assert first.metadata["packages"].keys() == {"numpy"}


def test_outputs_of_other_programs_and_the_value_of_the_last_line_are_seen(url: str) -> None:
    with CodingEnv(base_url=url) as env:
        env.reset()
        seen = run(env, "import os\nos.system('echo out; echo err >&2')\nprint('printed')\n{'a': [1]}")
        shell = run(env, "echo $((2 + 3)) > five; cat five; exit 4", "shell")

    assert (seen.stdout, seen.stderr, seen.value, seen.exit_code) == ("out\nprinted\n", "err\n", "{'a': [1]}", 0)
    assert (shell.stdout, shell.exit_code, shell.files) == ("5\n", 4, {"five": 2})


def test_an_exception_has_its_line_and_the_variables_stay(url: str) -> None:
    with CodingEnv(base_url=url) as env:
        env.reset()
        seen = run(env, "x = 1\ndef f():\n    return 1 / 0\nf()")
        syntax = run(env, "x +")
        after = run(env, "x")

    assert "    return 1 / 0\n" in seen.stderr
    assert "interpreter.py" not in seen.stderr
    assert (seen.exit_code, syntax.exit_code, after.value) == (1, 1, "1")
    assert "SyntaxError" in syntax.stderr


@pytest.mark.parametrize(
    ("code", "stopped", "keeps_variables"),
    [
        ("while True: pass", "time limit", True),
        ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass", "time limit", False),
        ("b'x' * (1 << 29)", "out of memory", False),
        ("import os\nos._exit(3)", "exit code 3", False),
        ("import os\nos.kill(os.getpid(), 9)", "signal SIGKILL", False),
        ("import ctypes\nctypes.string_at(0)", "signal SIGSEGV", False),
    ],
    ids=["loop", "stubborn loop", "memory", "exit", "kill", "crash"],
)
def test_a_program_that_is_stopped_names_the_reason_and_the_session_goes_on(
    url: str, code: str, stopped: str, keeps_variables: bool
) -> None:
    with CodingEnv(base_url=url) as env:
        env.reset()
        run(env, "x = 5")
        seen = run(env, code)
        after = run(env, "x")

    assert seen.stopped == stopped
    assert seen.exit_code == 1
    assert (after.value == "5") == keeps_variables
    assert ("variables and files are lost" in seen.stderr) != keeps_variables


def test_long_outputs_are_cut_and_marked(url: str) -> None:
    with CodingEnv(base_url=url) as env:
        env.reset()
        seen = run(env, "print('é' * 100_000)")
        short = run(env, "print('short')")

    assert len(seen.stdout.encode()) <= 1 << 16
    assert seen.is_cut
    assert (short.stdout, short.is_cut) == ("short\n", False)


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_of_each_task_passes_and_is_a_reply(url: str, name: str) -> None:
    with CodingEnv(base_url=url) as env:
        for seed in range(3):
            problem = make_problem(name, seed)
            first = env.reset(seed=seed, task=name).observation
            assert first.prompt == problem.prompt
            action = TEXT.parse(f"I think:\n```python\n{problem.solution}\n```", first)
            assert action == CodeAction(code=problem.solution + "\n")
            result = env.step(action)

            assert (result.reward, result.done, result.observation.tests_passed) == (1.0, True, 6)
            assert problem.solution == " ".join(problem.solution.split())


def test_tests_of_tasks_differ_by_seed_and_separate_solutions() -> None:
    right = 0
    for seed in range(200):
        problem = make_problem(ALL, seed)
        variables: dict[str, object] = {}
        exec(make_problem(ALL, seed + 1000).solution, variables)
        try:
            right += [eval(call, variables) for call in problem.calls] == expected_values(problem)
        except Exception:  # noqa: BLE001  a program of another task may raise anything
            continue

    assert right < 20
    assert make_problem("add", 1).calls != make_problem("add", 2).calls


def test_a_part_of_the_tests_earns_a_part_of_the_reward_and_steps_are_limited(url: str) -> None:
    tests = [{"call": f"f({n})", "expected": n * n} for n in range(4)]
    with CodingEnv(base_url=url) as env:
        first = env.reset(tests=tests, prompt="f(n) is the square of n", max_steps=3).observation
        results = [env.step(CodeAction(code=code)) for code in ("f = lambda n: n", "f = 3", "f = lambda n: n ** 2")]

    assert (first.prompt, first.tests_total) == ("f(n) is the square of n", 4)
    assert [result.reward for result in results] == [0.5, 0.0, 1.0]
    assert [result.done for result in results] == [False, False, True]


@pytest.mark.parametrize(
    "forgery",
    [
        "class A(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\nf = lambda n: A(7)",
        "import json\njson.dumps = lambda *a, **k: 'true'\nf = lambda n: 0",
        'import sys, os, json\nfor fd in range(3, 10):\n    try: os.write(fd, b\'{"values": ["9", "9"]}\\n\')\n'
        "    except OSError: pass\nf = lambda n: 0",
        "import builtins\nbuiltins.eval = lambda *a: True\nf = lambda n: 0",
        "f = lambda n: True",
        "f = lambda n: float('nan')",
        "import sys\nprint(vars(sys.modules['__main__']))\nf = lambda n: 0",
        "import gc\nfound = [o for o in gc.get_objects() if isinstance(o, dict) and 'expected' in o]\n"
        "f = lambda n: found[0]['expected']",
        "def f(n):\n    raise SystemExit(0)",
        "def f(n):\n    import os\n    os._exit(0)",
        "def f(n):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    ],
)
def test_a_verdict_cannot_be_forged(url: str, forgery: str) -> None:
    tests = [{"call": "f(1)", "expected": 1}, {"call": "f(2)", "expected": 4}]
    with CodingEnv(base_url=url) as env:
        env.reset(tests=tests, max_steps=5)
        result = env.step(CodeAction(code=forgery))
        after = env.step(CodeAction(code="f = lambda n: n * n"))

    assert result.reward == 0.0
    assert after.reward in (0.0, 1.0)  # a patched interpreter cannot even be right


def test_the_expected_values_are_nowhere_in_the_sandbox(url: str) -> None:
    code = (
        "import glob\nfound = []\n"
        "for pattern in '/proc/[0-9]*/cmdline', '/proc/[0-9]*/environ', '/session/**':\n"
        "  for path in glob.glob(pattern):\n    try: found.append(open(path, 'rb').read())\n    except OSError: pass\n"
        "b'86420' + b'97531' in b''.join(found)"
    )
    with CodingEnv(base_url=url) as env:
        env.reset(tests=[{"call": "f()", "expected": 8642097531}], max_steps=3)
        assert run(env, code).value == "False"


def test_episodes_share_nothing(url: str) -> None:
    with CodingEnv(base_url=url) as env, CodingEnv(base_url=url) as other:
        env.reset()
        other.reset()
        run(env, "open('/tmp/left', 'w').write('x')\nx = 1")
        seen = run(other, "import os\nprint(os.path.exists('/tmp/left'), 'x' in globals())")
        env.reset()
        again = run(env, "import os\nprint(os.path.exists('/tmp/left'), 'x' in globals())")

    assert (seen.stdout, again.stdout) == ("False False\n", "False False\n")


LEFTOVERS = {
    "a daemon": "import os, signal, time\nif os.fork() == 0:\n    os.setsid()\n    for n in range(1, 30):\n"
    "        try: signal.signal(n, signal.SIG_IGN)\n        except (OSError, ValueError): pass\n"
    "    while True:\n        open('/session/mark', 'w').write('x')\n        time.sleep(0.001)\n",
    "forks without end": "import os\nif os.fork() == 0:\n    while True:\n        try: os.fork()\n"
    "        except OSError: pass\n",
    "a closed directory": "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w')\nos.chmod('a/b', 0)\nos.chmod('a', 0)",
    "a deep tree": "import os\nfor _ in range(2000):\n    os.mkdir('d' * 100)\n    os.chdir('d' * 100)",
    "files elsewhere": "open('/tmp/x', 'w').write('x')\nopen('/dev/shm/y', 'w').write('x')",
    "a killed parent": "import os\nos.kill(os.getppid(), 9)",
    "a stopped parent": "import os\nos.kill(os.getppid(), 19)",
}


@pytest.mark.parametrize("code", LEFTOVERS.values(), ids=LEFTOVERS.keys())
def test_nothing_of_an_episode_is_left_in_the_next_one(url: str, code: str) -> None:
    look = (
        "import os, time\ntime.sleep(0.05)\nprint([sorted(os.listdir(d)) for d in ('/session', '/tmp', '/dev/shm')])\n"
        "print(len(os.listdir('/proc')))"
    )
    with CodingEnv(base_url=url) as env:
        env.reset()
        first = run(env, look)
        run(env, code)
        env.reset()
        second = run(env, look)

    assert second.stdout == first.stdout


def test_values_and_names_that_no_message_can_have_are_seen_as_escapes(url: str) -> None:
    code = "open(b'\\xff\\n', 'w').close()\nclass A:\n    def __repr__(self): return chr(0xD800)\nA()"
    with CodingEnv(base_url=url) as env:
        env.reset()
        seen = run(env, code)

    assert seen.value == "\\ud800"
    assert seen.files == {"\\udcff\n": 0}


@pytest.mark.parametrize(
    "fields", [{"exit_code": 10**30}, {"files": {"x": -1}}, {"stdout": {"text": "", "bytes": 10**30}}], ids=str
)
def test_numbers_that_no_interpreter_returns_end_it(url: str, fields: dict[str, object]) -> None:
    usual = {"stdout": {"text": "", "bytes": 0}, "exit_code": 0, "value": "", "stopped": "", "files": {}}
    forged = {"stderr": usual["stdout"], **usual, **fields}
    code = f"{PIPE}\nos.write(pipe, json.dumps({forged!r}).encode() + b'\\n')\ntime.sleep(9)"
    with CodingEnv(base_url=url) as env:
        env.reset()
        seen = run(env, code)
        env.reset()
        after = run(env, "1 + 1")

    assert seen.stopped == "a response that is not an interpreter's"
    assert after.value == "2"


def test_another_session_is_answered_while_a_program_runs(url: str) -> None:
    with CodingEnv(base_url=url) as env, CodingEnv(base_url=url) as other, ThreadPoolExecutor(1) as threads:
        env.reset()
        other.reset()
        busy = threads.submit(run, env, "while True: pass")
        values = []
        while not busy.done():
            values.append(run(other, "1 + 1").value)
            time.sleep(0.01)

    assert busy.result().stopped == "time limit"
    assert len(values) > 3
    assert set(values) == {"2"}


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"task": "sort"}, "task='sort': expected one of all, add"),
        ({"task": "add", "tests": [{"call": "f()", "expected": 1}]}, "tests: the task 'add' has its own"),
        ({"tests": [{"call": "f()"}]}, r"tests\[0\]\['expected'\]: Field required"),
        ({"tests": [{"call": "f()", "expected": 1, "points": 2}]}, r"tests\[0\]\['points'\]: Extra inputs"),
        ({"files": {"../x": "y"}}, r"files\['\.\./x'\]: expected a name below"),
        ({"files": {"x": 3}}, r"files\['x'\]: Input should be a valid string"),
        ({"files": {"x": "y" * (1 << 26)}}, "files: they have 67108864 bytes, and at most 33554432"),
        ({"max_steps": 0}, "max_steps=0: expected a whole number"),
        ({"prompt": 3}, "prompt=3: expected a text"),
        ({"cpu": 3}, "reset takes seed, episode_id, task, tests, prompt, files, max_steps; got cpu"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_reset_is_an_error_that_names_the_keyword_and_the_episode_goes_on(
    url: str, keywords: dict[str, object], message: str
) -> None:
    with CodingEnv(base_url=url) as env:
        env.reset()
        run(env, "x = 7")
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)
        assert run(env, "x").value == "7"


def test_the_shell_must_be_allowed(url: str) -> None:
    with LocalServer("openenv.envs.coding_env.server.app") as server, CodingEnv(base_url=server.base_url) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match="language='shell': this server runs Python only"):
            run(env, "ls", "shell")
        with pytest.raises(EnvironmentFault, match="there is no episode yet"), env.new_session() as fresh:
            fresh.step(CodeAction(code="1"))


def test_a_hundred_sessions_in_a_row_and_fifty_at_once_leave_nothing(url: str) -> None:
    with LocalServer("openenv.envs.coding_env.server.app") as server:

        def play(seed: int) -> str:
            with CodingEnv(base_url=server.base_url) as env:
                env.reset(seed=seed)
                return run(
                    env, "import os\nif os.fork() == 0:\n    os.setsid()\n    import time\n    time.sleep(99)\n1"
                ).value

        values = [play(seed) for seed in range(100)]
        with ThreadPoolExecutor(50) as threads:
            values += threads.map(play, range(50))
        assert server.pid is not None
        host = next(pid for pid in children_of(server.pid) if b"sandbox.host" in command_of(pid))

    assert set(values) == {"1"}
    while command_of(host):  # it ends after the server
        time.sleep(0.01)
    assert left_of(host) == []


def children_of(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_prompt_shows_the_task_first_and_then_what_happened(url: str) -> None:
    with CodingEnv(base_url=url) as env:
        first = env.reset(seed=1, task="add", max_steps=2).observation
        second = run(env, "def f ( x ) : return y")

    assert TEXT.describe(first) == make_problem("add", 1).prompt
    assert TEXT.describe(second) == "0 of 6 tests pass."
    code, action = TEXT.random_reply(first, Random(3))
    assert action == CodeAction(code=code)
    assert TEXT.parse("x" * 100_001, first) is None
    assert "longer than 100000" in TEXT.problem("x" * 100_001, first)


@pytest.mark.parametrize("blank", ["\n", " \n", "\r\n", " "])
def test_a_block_of_blank_lines_without_an_end_is_read_at_once(blank):
    begun = time.process_time()
    reply = "```python" + blank * 49_000 + "x"

    assert TEXT.parse(reply, CodeObservation()) == CodeAction(code=reply)
    assert time.process_time() - begun < 10.0
    assert TEXT.parse("```python\n \n  a = 1\n```", CodeObservation()) == CodeAction(code="  a = 1\n")


_AS_USER = str(Path(__file__).parents[2] / "hostile" / "as_user.sh")
_PLAYED = """
from openenv.envs.coding_env import CodeAction
from openenv.envs.coding_env.server.environment import CodingEnvironment

env = CodingEnvironment()
env.reset()
print(repr(env.step(CodeAction(code="import os; print(6 * 7); print(os.listdir())")).stdout))
env.close()
"""


def test_programs_run_for_an_ordinary_user_without_a_control_group() -> None:
    command = [*(["sh", _AS_USER] if os.geteuid() == 0 else []), sys.executable, "-c", _PLAYED]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "no sandbox can be made here" in ran.stderr or "unshare failed" in ran.stderr:
        pytest.skip(ran.stderr.splitlines()[-1])
    assert (ran.stdout, ran.returncode) == ("'42\\n[]\\n'\n", 0), ran.stderr
