"""Text interface of the git environment: a reply is a command line; below `write_file PATH` it has the content."""

from collections.abc import Mapping
from random import Random

from openenv.envs.git_env.models import EXAMPLES, LONGEST_COMMAND, LONGEST_CONTENT, GitAction, GitObservation
from openenv.text.interface import TextInterface
from openenv.text.reading import unwrapped

INSTRUCTIONS = """Work in a git repository. Each reply is one command line, without a shell:
git SUBCOMMAND ...
list_files [FOLDER]
read_file PATH
write_file PATH, with the whole content of the file on the lines below it
finish [ANSWER]
Each command takes one step. Do what the task wants and nothing else, then reply with finish."""


class GitText(TextInterface[GitAction, GitObservation]):
    """Shows the task first, then what each command has printed."""

    def instructions(self, observation: GitObservation) -> str:
        """The commands."""
        return INSTRUCTIONS

    def describe(self, observation: GitObservation) -> str:
        """The task with the first status; later the exit code, the output and the status."""
        seen = observation
        shown = f"Steps left: {seen.steps_left}. Status:\n{seen.status}"
        if seen.exit_code is None:
            return f"{seen.task}\n{shown}"
        printed = "\n".join(part.rstrip("\n") for part in (seen.stdout, seen.stderr) if part)
        return "\n".join(part for part in (f"Exit code: {seen.exit_code}", printed, shown) if part)

    def replies(self, observation: GitObservation) -> Mapping[str, GitAction]:
        """None: commands cannot be counted."""
        return {}

    def parse(self, reply: str, observation: GitObservation) -> GitAction | None:
        """The first line is the command, the rest the content of a file. None for an empty or a long reply."""
        command, _, content = unwrapped(reply, pairs=("`",)).partition("\n")
        if not command or len(command) > LONGEST_COMMAND or len(content) > LONGEST_CONTENT:
            return None
        return GitAction(command=command.strip(), content=f"{content}\n" if content else "")

    def problem(self, reply: str, observation: GitObservation) -> str:
        """That a reply is empty or too long."""
        if self.parse(reply, observation) is not None:
            return ""
        return f"write a command of 1 to {LONGEST_COMMAND} characters in the first line, such as `git status`."

    def random_reply(self, observation: GitObservation, rng: Random) -> tuple[str, GitAction]:
        """One of a few commands."""
        reply = rng.choice(EXAMPLES)
        return reply, GitAction(command=reply)

    def wording(self, action: GitAction, observation: GitObservation) -> str | None:
        """The command line of an action."""
        if not isinstance(action.command, str):
            return None
        return f"{action.command}\n{action.content}" if action.content else action.command
