"""Kinds of tasks about single commits: make, restore, amend, squash, revert, pick, find, and undo."""

from openenv.envs.git_env.server.history import LINES, History, changed
from openenv.envs.git_env.server.tasks import Check, Request, commit_checks, is_at

MAIN = "heads/main"


def branch_commit(history: History) -> Request:
    """A new branch with a commit that changes lines."""
    branch, subject, tree = f"topic-{history.word()}", f"Mention {history.word()}", history.tree()
    asked = []
    for path in history.rng.sample(sorted(tree), history.level):
        number, line = history.rng.randint(1, LINES), history.line()
        tree = changed(tree, path, number, line)
        asked.append(f"replace line {number} of {path} by '{line}'")
    ref = f"heads/{branch}"
    return Request(
        text=f"Create the branch '{branch}' from main. On it, {' and '.join(asked)}. Commit that on the branch, once, "
        f"with the message '{subject}'.",
        checks=commit_checks(ref, [history.heads["main"]], tree, subject),
        changes=frozenset({ref}),
    )


def restore_file(history: History) -> Request:
    """A deleted file comes back."""
    path, before = history.rng.choice(sorted(history.tree())), history.tree()
    rest = {name: text for name, text in before.items() if name != path}
    history.commit_on("main", rest, f"Tidy up {history.word()}")
    for _ in range(history.level):
        history.add_file("main")
    history.publish()
    tree = {**history.tree(), path: before[path]}
    return Request(
        text=f"The file {path} was deleted on main. Bring it back as it was just before, and commit that on main.",
        checks=commit_checks(MAIN, [history.heads["main"]], tree),
        changes=frozenset({MAIN}),
    )


def amend_message(history: History) -> Request:
    """The message of the last commit is replaced."""
    right = f"Describe {history.word()} and {history.word()}"
    history.add_file("main")
    parent = history.heads["main"]
    path = f"notes/{history.word()}.txt"
    tree = {**history.tree(), path: f"{history.line()}\n"}
    history.commit_on("main", tree, f"Descirbe {history.word()}")
    return Request(
        text=f"Replace the message of the last commit on main by '{right}'. Its changes stay as they are.",
        checks=commit_checks(MAIN, [parent], tree, right),
        changes=frozenset({MAIN}),
    )


def squash_commits(history: History) -> Request:
    """The last commits become one."""
    base, count, subject = history.heads["main"], 1 + history.level, f"Collect {history.word()}"
    for _ in range(count):
        history.change_line("main")
    return Request(
        text=f"Squash the last {count} commits of main, which origin does not have, into one commit with the message "
        f"'{subject}'.",
        checks=commit_checks(MAIN, [base], history.tree(), subject),
        changes=frozenset({MAIN}),
    )


def revert_commit(history: History) -> Request:
    """A commit undoes an earlier one."""
    mark = history.add_file("main")
    before, after = history.commits[history.commits[mark].parents[0]].tree, history.commits[mark].tree
    for _ in range(history.level):
        history.change_line("main", spared=after.keys() - before.keys())
    history.publish()
    tree = {path: text for path, text in history.tree().items() if path in before}
    return Request(
        text=f"The commit '{history.commits[mark].message}' on main was a mistake. Undo it with a new commit on main; "
        "the later commits stay.",
        checks=commit_checks(MAIN, [history.heads["main"]], tree),
        changes=frozenset({MAIN}),
    )


def pick_commit(history: History) -> Request:
    """One commit of a branch is applied to main."""
    branch = f"topic-{history.word()}"
    history.heads[branch] = history.heads["main"]
    marks = [history.add_file(branch) for _ in range(1 + history.level)]
    history.change_line("main")
    history.publish()
    picked = history.commits[history.rng.choice(marks)]
    added = picked.tree.keys() - history.commits[picked.parents[0]].tree.keys()
    tree = {**history.tree(), **{path: picked.tree[path] for path in added}}
    return Request(
        text=f"Apply the commit '{picked.message}' of the branch '{branch}' to main as a commit with the same message, "
        "and no other commit of that branch.",
        checks=commit_checks(MAIN, [history.heads["main"]], tree, picked.message),
        changes=frozenset({MAIN}),
    )


def find_commit(history: History) -> Request:
    """The commit that changed a setting; the answer is its hash."""
    rng, path = history.rng, "settings.txt"
    values = {name: rng.randint(10, 99) for name in ("delay", "limit", "retries", "timeout")}
    history.commit_on("main", {**history.tree(), path: _settings(values)}, "Add settings.txt")
    steps: list[tuple[int, str, int, int]] = []
    for _ in range(6 * history.level):
        name = rng.choice(sorted(values))
        old, values[name] = values[name], rng.choice([n for n in range(10, 100) if n != values[name]])
        mark = history.commit_on("main", {**history.tree(), path: _settings(values)}, f"Tune for {history.word()}")
        steps.append((mark, name, old, values[name]))
    history.publish()
    candidates = [step for step in steps if [other[1:] for other in steps].count(step[1:]) == 1]
    mark, name, old, new = rng.choice(candidates)
    return Request(
        text=f"Which commit on main changed {name} in {path} from {old} to {new}? Answer with its hash, of at least 7 "
        "digits: finish HASH. Change nothing.",
        checks={},
        answer=mark,
    )


def undo_reset(history: History) -> Request:
    """Main was reset by mistake."""
    kept = history.heads["main"]
    for _ in range(history.level):
        history.add_file("main")
    lost = history.heads["main"]
    history.heads["main"] = kept
    history.unreferenced = [lost]
    checks: dict[str, Check] = {"restored": is_at(MAIN, lost)}
    return Request(
        text="By mistake main was reset to an earlier commit, and commits that origin does not have are gone from it. "
        "Put main back to where it was before the reset.",
        checks=checks,
        changes=frozenset({MAIN}),
        setup=[["reset", "-q", "--hard", f":{lost}"], ["reset", "-q", "--hard", f":{kept}"]],
    )


def _settings(values: dict[str, int]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in values.items())
