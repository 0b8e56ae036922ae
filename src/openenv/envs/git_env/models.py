"""Action, observation and state of the git environment."""

from typing import Annotated

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

LONGEST_COMMAND = 2_000
LONGEST_CONTENT = 20_000
EXAMPLES = [
    "git status",
    "git log --oneline --all",
    "git branch --all",
    "git diff",
    "git switch main",
    "git commit --allow-empty -m note",
    "git reset --hard HEAD~1",
    "git push origin main",
    "list_files",
    "read_file README.md",
    "finish",
]


class GitAction(Action):
    """One command: of git, of the work tree, or `finish`."""

    command: Annotated[str, Field(max_length=LONGEST_COMMAND, examples=EXAMPLES)] | list[str] = Field(
        description="git SUBCOMMAND ..., list_files [FOLDER], read_file PATH, write_file PATH, or finish [ANSWER]: "
        "a line with quotes as in a shell, or a list of arguments; no shell runs it",
        examples=EXAMPLES,
    )
    content: str = Field(
        default="", max_length=LONGEST_CONTENT, description="New content of the file, where the command is write_file"
    )


class GitObservation(Observation):
    """The result of a command. The metadata has the `seed`."""

    METADATA_IS_PLAIN_JSON = True

    task: str = Field(description="What to do")
    exit_code: int | None = Field(
        description="0: success; 124: a limit ended the command; 126: the command is refused; null after a reset"
    )
    stdout: str = Field(description="What the command has printed, or the content of the file")
    stderr: str = Field(description="Its errors and remarks")
    is_cut: bool = Field(description="Whether the output is longer than what is shown")
    status: str = Field(description="Branch and changed files, as `git status --short --branch` prints them")
    steps_left: int = Field(description="Commands that the episode still allows")


class GitState(State):
    """The task of an episode, and how it ended."""

    kind: str = Field(default="", description="Kind of the task")
    level: int = Field(default=1, description="Difficulty: 1, 2 or 3")
    seed: int = Field(default=0, description="Determines the repository and the task")
    max_steps: int = Field(default=0, description="Commands after which the episode ends")
    task: str = Field(default="", description="What to do")
    answer: str | None = Field(default=None, description="What `finish` was given; null before")
    reward: float | None = Field(default=None, description="1 or 0 once the episode has ended; null before")
