"""The coding environment: programs run in the interpreter of the episode, in the sandbox of the session."""

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import uuid4

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from openenv.core.env_server.interfaces import Environment
from openenv.envs.coding_env.models import CodeAction, CodeObservation, CodeState, CodeTest
from openenv.envs.coding_env.problems import ALL, NAMES, expected_values, make_problem
from openenv.envs.coding_env.server.session import InterpreterEnded, SandboxedInterpreter
from openenv.envs.coding_env.server.settings import CodingSettings, pool_of
from openenv.envs.reset_values import refuse_other_keywords, require_choice, require_whole
from openenv.formats.json_text import json_text
from openenv.hosting.sandbox.python_files import installed

KEYWORDS = ("task", "tests", "prompt", "files", "max_steps")
OWN = "own"
"""The task of tests that came with the reset."""
_MOST_TESTS, _MOST_STEPS, _SEED_BITS = 1000, 10_000, 31
_TESTS = TypeAdapter(list[CodeTest])
_FILES = TypeAdapter(dict[str, str])


def _as_unicode(text: str) -> str:
    """The text with half characters, which no message can have, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


_Text = Annotated[str, AfterValidator(_as_unicode)]
_Size = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Output(BaseModel):
    text: _Text
    bytes: _Size


class _Ran(BaseModel):
    """What an interpreter says of a program. The program may have written it itself."""

    stdout: _Output
    stderr: _Output
    exit_code: Annotated[int, Field(ge=-(1 << 31), lt=1 << 32)]
    value: _Text
    stopped: _Text
    files: dict[_Text, _Size]


@dataclass
class _Episode:
    state: CodeState
    prompt: str = ""
    tests: Sequence[CodeTest] = field(default_factory=list)


class CodingEnvironment(Environment[CodeAction, CodeObservation, CodeState]):
    """Programs that share their variables. With tests, the reward is the share that passes after a program.

    The interpreter computes the calls of the tests. Their expected values never enter the sandbox, and are compared
    here, as JSON.
    """

    execution = "thread"  # it waits for the interpreter

    def __init__(self, settings: CodingSettings | None = None) -> None:
        self._settings = settings or CodingSettings()
        self._episode: _Episode | None = None
        self._sandbox: SandboxedInterpreter | None = None
        """Where the programs of this session run."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> CodeObservation:
        """Begin with a new interpreter, in an empty directory.

        task: the name of a small task, or `all`, which draws one for each seed. tests: those of a task of one's own,
        `[{"call": "f(3)", "expected": 9}]`, with its prompt. files: texts by name, which are written first. max_steps:
        programs after which the episode is done; by default 1 with tests, else there is no limit. Raises ValueError,
        naming the keyword, for a wrong value. The current episode then continues.
        """
        refuse_other_keywords({key: value for key, value in kwargs.items() if key not in KEYWORDS}, KEYWORDS)
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        task, prompt, tests = _task_of(kwargs, seed)
        files = _checked_files(kwargs.get("files") or {}, self._settings.limits.file_bytes)
        max_steps = kwargs.get("max_steps", 1 if tests else None)
        if max_steps is not None:
            require_whole("max_steps", max_steps, 1, _MOST_STEPS)
        listed = self._begin(files)
        state = CodeState(episode_id=episode_id or str(uuid4()), task=task, seed=seed, max_steps=max_steps)
        self._episode = _Episode(state, prompt, tests)
        self.success_return = 1.0 if tests and max_steps == 1 else None  # several programs may have a part each
        metadata = {
            "seed": seed,
            "python": sys.version.split()[0],
            "packages": installed(self._settings.packages),
            "sandbox": pool_of(self._settings).host.layers,
        }
        return CodeObservation(prompt=prompt, files=listed, tests_total=len(tests), metadata=metadata)

    def step(self, action: CodeAction, timeout_s: float | None = None, **kwargs: Any) -> CodeObservation:
        """Run a program, then the tests. timeout_s: of the program, if it is less than the server's.

        Raises ValueError before the first reset, and for the shell where it is not allowed.
        """
        episode = self._started()
        if action.language == "shell" and not self._settings.shell:
            raise ValueError("language='shell': this server runs Python only. Start it with --shell.")
        seconds = self._settings.seconds if timeout_s is None else min(timeout_s, self._settings.seconds)
        episode.state.step_count += 1
        passed = 0
        try:
            asked = {"code": action.code, "language": action.language, "seconds": seconds}
            ran = _Ran.model_validate(self._interpreter().request(seconds, **asked))
            passed = self._passed(episode, seconds)
        except (InterpreterEnded, ValidationError) as error:
            ran, passed = _lost(error), 0
            self._begin({})
        state, total = episode.state, len(episode.tests)
        state.last_exit_code = ran.exit_code
        return CodeObservation(
            prompt=episode.prompt,
            stdout=ran.stdout.text,
            stderr=ran.stderr.text,
            exit_code=ran.exit_code,
            value=ran.value,
            stopped=ran.stopped,
            is_cut=any(output.bytes > len(output.text.encode()) for output in (ran.stdout, ran.stderr)),
            files=ran.files,
            tests_passed=passed,
            tests_total=total,
            reward=passed / total if total else 0.0,
            done=bool(total and passed == total) or state.step_count == state.max_steps,
            metadata={"step": state.step_count},
        )

    @property
    def state(self) -> CodeState:
        """The task, and how the latest program ended."""
        return self._episode.state if self._episode else CodeState()

    def close(self) -> None:
        """End the sandbox of the session."""
        if self._sandbox is not None:
            pool_of(self._settings).discard(self._sandbox)
            self._sandbox = None

    def _begin(self, files: dict[str, str]) -> dict[str, int]:
        """Begin with a new interpreter and these files: in the same sandbox, or in another if it cannot be emptied."""
        if self._sandbox is not None:
            try:
                return _sizes(self._sandbox.begin(files))
            except InterpreterEnded:
                self.close()
        self._sandbox = pool_of(self._settings).take()
        return _sizes(self._sandbox.begin(files))

    def _interpreter(self) -> SandboxedInterpreter:
        assert self._sandbox is not None
        return self._sandbox

    def _passed(self, episode: _Episode, seconds: float) -> int:
        """How many tests pass. Values are compared as JSON, where True is not 1."""
        if not episode.tests:
            return 0
        calls = [test.call for test in episode.tests]
        values = self._interpreter().request(seconds, calls=calls, seconds=seconds).get("values")
        if not isinstance(values, list) or len(values) != len(calls):
            raise InterpreterEnded("a response without the values of the tests")
        expected = [json_text(test.expected, sort_keys=True) for test in episode.tests]
        return sum(_canonical(value) == wanted for value, wanted in zip(values, expected, strict=True))

    def _started(self) -> _Episode:
        if self._episode is None:
            raise ValueError("there is no episode yet. Call reset() first.")
        return self._episode


def _task_of(kwargs: dict[str, Any], seed: int) -> tuple[str, str, list[CodeTest]]:
    """The name, the prompt and the tests of the task. Raises ValueError, naming the keyword, for wrong ones."""
    task, prompt = kwargs.get("task"), kwargs.get("prompt", "")
    if not isinstance(prompt, str):
        raise ValueError(f"prompt={prompt!r:.100}: expected a text.")
    if task is None:
        tests = _checked("tests", kwargs.get("tests") or [], _TESTS)
        if len(tests) > _MOST_TESTS:
            raise ValueError(f"tests: {len(tests)} were given, and {_MOST_TESTS} are allowed.")
        return (OWN if tests else ""), prompt, tests
    for name in ("tests", "prompt"):
        if kwargs.get(name):
            raise ValueError(f"{name}: the task {task!r:.80} has its own. Leave out one of them.")
    problem = make_problem(require_choice("task", task, (ALL, *NAMES)), seed)
    values = zip(problem.calls, expected_values(problem), strict=True)
    return problem.name, problem.prompt, [CodeTest(call=call, expected=expected) for call, expected in values]


def _checked(name: str, value: Any, adapter: TypeAdapter[Any]) -> Any:
    """The value of a keyword. Raises ValueError, naming the place in it, for a wrong one."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"[{part!r}]" for part in first["loc"])
        raise ValueError(f"{name}{place}: {first['msg']}.") from None


def _checked_files(value: Any, file_bytes: int) -> dict[str, str]:
    """The files of a reset. Raises ValueError, naming the file, for a wrong name or text, and for too much text."""
    files: dict[str, str] = _checked("files", value, _FILES)
    for name in files:
        if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
            raise ValueError(f"files[{name!r:.80}]: expected a name below the working directory.")
    size, most = sum(len(text.encode()) for text in files.values()), file_bytes
    if size > most:
        raise ValueError(f"files: they have {size} bytes, and at most {most} are allowed.")
    return files


def _sizes(response: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = response["files"]
    return found


def _lost(error: Exception) -> _Ran:
    """What is seen after a program that has ended its interpreter."""
    reason = str(error) if isinstance(error, InterpreterEnded) else "a response that is not an interpreter's"
    note = f"The interpreter has ended: {reason}. A new one was started: variables and files are lost.\n"
    output = _Output(text=note, bytes=len(note))
    return _Ran(stdout=_Output(text="", bytes=0), stderr=output, exit_code=1, value="", stopped=reason, files={})


def _canonical(value: Any) -> str | None:
    """JSON text in one spelling; None for what is no JSON."""
    if not isinstance(value, str):
        return None
    try:
        return json_text(json.loads(value), sort_keys=True)
    except (ValueError, RecursionError):
        return None
