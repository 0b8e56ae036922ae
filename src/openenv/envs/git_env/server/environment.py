"""Tasks on real git repositories."""

import base64
import json
from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.git_env.models import GitAction, GitObservation, GitState
from openenv.envs.git_env.server.allowed import Refused, checked_git_arguments, words_of
from openenv.envs.git_env.server.git_process import Completed, git_program
from openenv.envs.git_env.server.kinds import KINDS, make_task
from openenv.envs.git_env.server.repository import RepositoryView, Workspace
from openenv.envs.git_env.server.tasks import Goal, Task
from openenv.envs.git_env.server.work_tree import list_files, read_file, write_file
from openenv.envs.reset_values import refuse_other_keywords, require_choice, require_whole
from openenv.formats.json_text import json_text

ANY_KIND = "any"
LEVELS = (1, 3)
MAX_STEPS = 20
MOST_SHOWN = 4_000
"""Characters of each output that are shown."""
REFUSED = 126
_MOST_STEPS = 200
_LONGEST_STATUS = 1_000
_SECONDS_A_STEP = 60
_NOTHING = Completed(exit_code=0, stdout="", stderr="", is_cut=False)


class GitEnvironment(Environment[GitAction, GitObservation, GitState]):
    """Change a git repository with an origin. The reward is 1 at the end if all is as the task wants it, else 0."""

    success_return = 1.0

    def __init__(self) -> None:
        """Raises FileNotFoundError where the program git is not installed."""
        super().__init__()
        git_program()
        self._workspace: Workspace | None = None
        self._task: Task | None = None
        self._state = GitState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        kind: str = ANY_KIND,
        level: int = 1,
        max_steps: int = MAX_STEPS,
        **kwargs: Any,
    ) -> GitObservation:
        """Build the repositories of a task. Equal seeds build equal ones, with equal hashes.

        Args:
            kind: of the task; `any` draws one.
            level: 1 to 3.
            max_steps: the most commands.

        Raises:
            ValueError: for another keyword or value; the current episode then continues.
        """
        refuse_other_keywords(kwargs, ("kind", "level", "max_steps"))
        require_choice("kind", kind, [ANY_KIND, *KINDS])
        require_whole("level", level, *LEVELS)
        require_whole("max_steps", max_steps, 1, _MOST_STEPS)
        seed = Random().getrandbits(32) if seed is None else seed
        drawn = Random(seed).choice(list(KINDS)) if kind == ANY_KIND else kind
        task = make_task(drawn, level, seed)
        workspace = Workspace()
        try:
            task.hashes = workspace.build(task.history, task.request.setup)
        except BaseException:
            workspace.close()
            raise
        self._begin(task, workspace)
        self._state = GitState(
            episode_id=episode_id or str(uuid4()),
            kind=drawn,
            level=level,
            seed=seed,
            max_steps=max_steps,
            task=task.request.text,
        )
        return self._observation(None, _NOTHING, reward=None)

    def step(self, action: GitAction, timeout_s: float | None = None, **kwargs: Any) -> GitObservation:
        """Run a command. One that is refused has the exit code 126 and changes nothing.

        The last command that is allowed ends the episode, as `finish` does.
        """
        workspace, state = self._started(), self._state
        state.step_count += 1
        try:
            completed = self._run(workspace, action)
        except Refused as refused:
            completed = Completed(exit_code=REFUSED, stdout="", stderr=f"refused: {refused}\n", is_cut=False)
        if state.answer is not None or state.step_count >= state.max_steps:
            assert self._task is not None
            assert self.rubric is not None
            state.reward = self.rubric(state.answer, RepositoryView(workspace, self._task.hashes))
        return self._observation(completed.exit_code, completed, reward=state.reward or 0.0)

    def save_state(self) -> bytes:
        """The repositories and the state. Raises ValueError before the first reset, and for large repositories."""
        workspace = self._started()
        assert self._task is not None
        saved = {
            "state": self._state.model_dump(),
            "hashes": list(self._task.hashes.items()),
            "folder": base64.b64encode(workspace.save()).decode(),
        }
        return json_text(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode, in a folder of its own."""
        saved = json.loads(snapshot)
        state = GitState(**saved["state"])
        task = make_task(state.kind, state.level, state.seed)
        task.hashes = dict(saved["hashes"])
        workspace = Workspace()
        workspace.load(base64.b64decode(saved["folder"]))
        self._begin(task, workspace)
        self._state = state

    def close(self) -> None:
        """Remove the session's folder."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    @property
    def state(self) -> GitState:
        """The task, the number of steps, and how the episode ended."""
        return self._state

    def _begin(self, task: Task, workspace: Workspace) -> None:
        self.close()
        self._task, self._workspace, self.rubric = task, workspace, Goal(task)

    def _started(self) -> Workspace:
        if self._workspace is None:
            raise ValueError("there is no repository yet. Call reset() first.")
        return self._workspace

    def _run(self, workspace: Workspace, action: GitAction) -> Completed:
        """Run a command. Raises Refused."""
        program, *words = words_of(action.command)
        if program == "git":
            return workspace.run(checked_git_arguments(words), clock=self._state.step_count * _SECONDS_A_STEP)
        _require_words(program, words, action)
        word, work = "".join(words), workspace.work
        if program == "finish":
            self._state.answer = word
            return _NOTHING
        if program == "list_files":
            printed = list_files(work, word)
        elif program == "read_file":
            printed = read_file(work, word)
        else:
            printed = write_file(work, word, action.content)
        return Completed(exit_code=0, stdout=printed, stderr="", is_cut=False)

    def _observation(self, exit_code: int | None, completed: Completed, reward: float | None) -> GitObservation:
        state, is_done = self._state, self._state.reward is not None
        outputs = (completed.stdout, completed.stderr)
        stdout, stderr = (_cut(text, MOST_SHOWN) for text in outputs)
        status = self._started().run(["status", "--short", "--branch"]).stdout
        metadata: dict[str, Any] = {"seed": state.seed}
        if is_done and self.rubric is not None:
            metadata["rubric"] = self.rubric.scores()
        fields = {
            "task": state.task,
            "exit_code": exit_code,
            "stdout": stdout,
            "stderr": stderr,
            "is_cut": completed.is_cut or any(len(text) > MOST_SHOWN for text in outputs),
            "status": _cut(status.rstrip("\n"), _LONGEST_STATUS),
            "steps_left": state.max_steps - state.step_count,
            "done": is_done,
            "reward": reward,
            "metadata": metadata,
        }
        return GitObservation.construct_unchecked(fields)


_NUM_WORDS: Mapping[str, tuple[int, int]] = {
    "list_files": (0, 1),
    "read_file": (1, 1),
    "write_file": (1, 1),
    "finish": (0, 1),
}
"""The fewest and the most arguments of a command."""


def _require_words(program: str, words: list[str], action: GitAction) -> None:
    """Raise Refused for a command that is not known, or with too few or too many arguments."""
    if program not in _NUM_WORDS:
        raise Refused(f"command {program[:80]!r}: expected git, {', '.join(_NUM_WORDS)}. No shell runs it.")
    fewest, most = _NUM_WORDS[program]
    if not fewest <= len(words) <= most:
        expected = f"{fewest} or {most} arguments" if fewest < most else f"{most} argument"
        raise Refused(f"{program}: expected {expected}, got {len(words)}. Put quotes around one with blanks.")
    if action.content and program != "write_file":
        raise Refused(f"{program} takes no content. Write one command at a time.")


def _cut(text: str, longest: int) -> str:
    """The beginning of a long text, with the number of characters that are left out."""
    return text if len(text) <= longest else f"{text[:longest]}\n({len(text) - longest} characters more)\n"


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each kind of task at each level."""
    levels = range(LEVELS[0], LEVELS[1] + 1)
    return {f"{kind}/level-{level}": {"kind": kind, "level": level} for kind in KINDS for level in levels}
