"""A solver of the git tasks: reads the task's text, and does all else with commands."""

import re
from collections.abc import Callable, Mapping

RunCommand = Callable[..., str]
"""Takes a command as arguments, and `content`; returns what it has printed."""


class Committer:
    """Solves one task."""

    def __init__(self, task: str, run: RunCommand) -> None:
        self._text = task
        self._run = run

    def solve(self) -> None:
        """Do what the task wants, and finish."""
        for pattern, solve in _SOLVERS.items():
            if re.search(pattern, self._text):
                answer = solve(self)
                self._run("finish", *([answer] if answer else []))
                return
        raise ValueError(f"no solver knows the task {self._text!r}")

    def branch_commit(self) -> None:
        """Change lines on a new branch."""
        branch, message = self._find(r"branch '(.*?)'.*message '(.*?)'")
        self._git("switch", "-c", branch)
        for number, path, line in re.findall(r"replace line (\d+) of (\S+) by '(.*?)'", self._text):
            lines = self._run("read_file", path).splitlines()
            lines[int(number) - 1] = line
            self._run("write_file", path, content="".join(f"{line}\n" for line in lines))
        self._git("commit", "-a", "-m", message)

    def restore_file(self) -> None:
        """Take the file from the commit before the one that deleted it."""
        (path,) = self._find(r"The file (\S+) was deleted")
        deleted = self._git("log", "-1", "--diff-filter=D", "--format=%h", "--", path).strip()
        self._git("checkout", f"{deleted}~1", "--", path)
        self._git("commit", "-m", f"Restore {path}")

    def amend_message(self) -> None:
        """Amend the last commit."""
        self._git("commit", "--amend", "-m", *self._find(r"by '(.*?)'"))

    def squash_commits(self) -> None:
        """Commit the changes since origin's commit at once."""
        self._git("reset", "--soft", "origin/main")
        self._git("commit", "-m", *self._find(r"message '(.*?)'"))

    def revert_commit(self) -> None:
        """Revert the named commit."""
        self._git("revert", "--no-edit", self._commit(*self._find(r"The commit '(.*?)'")))

    def pick_commit(self) -> None:
        """Cherry-pick the named commit."""
        self._git("cherry-pick", self._commit(*self._find(r"commit '(.*?)'")))

    def find_commit(self) -> str:
        """Read the changes of the file, newest first."""
        name, path, old, new = self._find(r"changed (\w+) in (\S+) from (\d+) to (\d+)")
        printed = self._git("log", "--format=commit %h", "-U0", "-p", "-S", f"{name} = {new}", "--", path)
        commit = ""
        for part in printed.split("commit ")[1:]:
            if f"-{name} = {old}\n+{name} = {new}" in part:
                commit = part.split()[0]
        return commit

    def undo_reset(self) -> None:
        """Reset to where main was before the last reset."""
        self._git("reset", "--hard", "main@{1}")

    def resolve_conflict(self) -> None:
        """Merge, and take the lines that the task wants out of each conflict."""
        (branch,) = self._find(r"branch '(.*?)'")
        kept = r"\1" if "line of main" in self._text else r"\2" if "line of the branch" in self._text else r"\1\2"
        self._git("merge", branch)
        for path in self._git("diff", "--name-only", "--diff-filter=U").split():
            text = self._run("read_file", path)
            whole = re.sub(r"<<<<<<< .*?\n(.*?)=======\n(.*?)>>>>>>> .*?\n", kept, text, flags=re.DOTALL)
            self._run("write_file", path, content=whole)
        self._git("commit", "-a", "--no-edit")

    def rebase_branch(self) -> None:
        """Rebase the branch."""
        self._git("rebase", "main", *self._find(r"branch '(.*?)'"))

    def move_commits(self) -> None:
        """Make the branch, then reset main."""
        self._git("branch", *self._find(r"branch '(.*?)'"))
        self._git("reset", "--hard", "origin/main")

    def delete_merged(self) -> None:
        """Delete what git lists as merged."""
        listed = self._git("branch", "--merged", "main").replace("*", " ").split()
        self._git("branch", "-d", *(name for name in listed if name != "main"))

    def tag_release(self) -> None:
        """Tag the named commit."""
        subject, version, message = self._find(r"commit '(.*?)'.*tag '(.*?)'.*message '(.*?)'")
        self._git("tag", "-a", version, "-m", message, self._commit(subject))
        if "push the tag" in self._text:
            self._git("push", "origin", version)

    def push_diverged(self) -> None:
        """Rebase onto origin's commits, and push."""
        self._git("pull", "--rebase", "origin", "main")
        self._git("push", "origin", "main")

    def _git(self, *arguments: str) -> str:
        return self._run("git", *arguments)

    def _commit(self, subject: str) -> str:
        """The hash of the commit with a subject, on any branch."""
        rows = (row.partition(" ") for row in self._git("log", "--all", "--format=%h %s").splitlines())
        return next(name for name, _, found in rows if found == subject)

    def _find(self, pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, self._text)
        if found is None:
            raise ValueError(f"{pattern!r} is not in the task {self._text!r}")
        return found.groups()


_SOLVERS: Mapping[str, Callable[[Committer], str | None]] = {
    "^Create the branch": Committer.branch_commit,
    "was deleted": Committer.restore_file,
    "^Replace the message": Committer.amend_message,
    "^Squash": Committer.squash_commits,
    "was a mistake": Committer.revert_commit,
    "^Apply the commit": Committer.pick_commit,
    "^Which commit": Committer.find_commit,
    "^By mistake": Committer.undo_reset,
    "^Merge": Committer.resolve_conflict,
    "^Rebase": Committer.rebase_branch,
    "^The last": Committer.move_commits,
    "^Delete each": Committer.delete_merged,
    "^Give the commit": Committer.tag_release,
    "^origin has commits": Committer.push_diverged,
}
"""By what only the text of that kind of task contains."""
