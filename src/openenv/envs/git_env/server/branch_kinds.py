"""Kinds of tasks about branches and tags: merge, rebase, move, delete, tag, and push."""

from openenv.envs.git_env.server.commit_kinds import MAIN
from openenv.envs.git_env.server.history import LINES, History, Tree, blob, changed
from openenv.envs.git_env.server.repository import RepositoryView
from openenv.envs.git_env.server.tasks import Check, Request, commit_checks, is_at

_KEEP = {
    "main": "keep the line of main",
    "branch": "keep the line of the branch",
    "both": "keep both lines, that of main first",
}


def resolve_conflict(history: History) -> Request:
    """A merge in which both sides have changed the same lines."""
    branch, keep = f"topic-{history.word()}", history.rng.choice(sorted(_KEEP))
    base = history.tree()
    history.heads[branch] = history.heads["main"]
    ours, theirs, merged = base, base, base
    for path in history.rng.sample(sorted(base), history.level):
        number, our_line, their_line = history.rng.randint(1, LINES), history.line(), history.line()
        ours, theirs = changed(ours, path, number, our_line), changed(theirs, path, number, their_line)
        lines = {"main": our_line, "branch": their_line, "both": f"{our_line}\n{their_line}"}
        merged = changed(merged, path, number, lines[keep])
    history.commit_on("main", ours, f"Prefer {history.word()}")
    history.commit_on(branch, theirs, f"Prefer {history.word()}")
    history.publish()
    parents = [history.heads["main"], history.heads[branch]]
    return Request(
        text=f"Merge the branch '{branch}' into main. Where both have changed the same line, {_KEEP[keep]}.",
        checks=commit_checks(MAIN, parents, merged),
        changes=frozenset({MAIN}),
    )


def rebase_branch(history: History) -> Request:
    """The commits of a branch come after those of main."""
    branch = f"topic-{history.word()}"
    history.heads[branch] = history.heads["main"]
    base = history.tree()
    subjects = [history.commits[history.add_file(branch)].message for _ in range(history.level)]
    added = {path: text for path, text in history.tree(branch).items() if path not in base}
    for _ in range(2):
        history.change_line("main")
    history.publish()
    ref, main = f"heads/{branch}", history.heads["main"]
    checks: dict[str, Check] = {
        "based": lambda view: view.contains(ref, view.hashes[main]),
        "commits": lambda view: view.subjects(ref, view.hashes[main]) == subjects[::-1],
        "content": _has_content(ref, {**history.tree(), **added}),
    }
    return Request(
        text=f"Rebase the branch '{branch}' onto main: its commits come after those of main, with the same messages.",
        checks=checks,
        changes=frozenset({ref}),
    )


def move_commits(history: History) -> Request:
    """Commits that were made on main belong on a branch."""
    branch, kept = f"topic-{history.word()}", history.heads["main"]
    for _ in range(history.level):
        history.add_file("main")
    moved = history.heads["main"]
    count = f"{history.level} commits" if history.level > 1 else "commit"
    return Request(
        text=f"The last {count} of main, which origin does not have, should be on a branch of their own. Create the "
        f"branch '{branch}' with them, and set main back to where origin has it.",
        checks={"branch": is_at(f"heads/{branch}", moved), "main": is_at(MAIN, kept)},
        changes=frozenset({MAIN, f"heads/{branch}"}),
    )


def delete_merged(history: History) -> Request:
    """Branches whose commits main has are deleted, others stay."""
    merged, others = [], []
    for _ in range(history.level):
        name = f"done-{history.word()}"
        history.heads[name] = history.heads["main"]
        history.add_file(name)
        tree = {**history.tree(), **history.tree(name)}
        history.heads["main"] = history.commit(tree, f"Merge {name}", [history.heads["main"], history.heads[name]])
        merged.append(name)
    for _ in range(1 + history.level):
        name = f"done-{history.word()}"
        history.heads[name] = history.heads["main"]
        history.add_file(name)
        others.append(name)
    history.add_file("main")
    history.tracking = history.published = {"main": history.heads["main"]}
    refs = {f"heads/{name}" for name in merged}
    return Request(
        text="Delete each local branch whose commits are all in main. Keep the others, and main.",
        checks={"deleted": lambda view: not refs & view.refs.keys()},
        changes=frozenset(refs),
    )


def tag_release(history: History) -> Request:
    """An annotated tag, which origin gets too at higher levels."""
    version = f"v{history.rng.randint(0, 9)}.{history.rng.randint(0, 9)}.{history.rng.randint(0, 9)}"
    message, mark = f"Release {history.word()}", history.add_file("main")
    for _ in range(history.level):
        history.change_line("main")
    history.publish()
    ref, pushed = f"tags/{version}", f"origin/tags/{version}"
    checks: dict[str, Check] = {
        "annotated": lambda view: view.object_type(ref) == "tag",
        "commit": lambda view: view.target(ref) == view.hashes[mark],
        "message": lambda view: view.tag_message(ref) == message,
    }
    if history.level > 1:
        checks["pushed"] = lambda view: pushed in view.refs and view.refs[pushed] == view.refs.get(ref)
    wish = ", and push the tag to origin" if history.level > 1 else ""
    return Request(
        text=f"Give the commit '{history.commits[mark].message}' of main the annotated tag '{version}' with the "
        f"message '{message}'{wish}.",
        checks=checks,
        changes=frozenset({ref, pushed} if history.level > 1 else {ref}),
    )


def push_diverged(history: History) -> Request:
    """Local commits and those of origin are brought together and pushed."""
    base = history.heads["main"]
    subjects = {history.commits[history.add_file("main")].message for _ in range(history.level)}
    local = history.heads["main"]
    history.heads["main"] = base
    for _ in range(history.level):
        history.add_file("main")
    theirs = history.heads["main"]
    history.published["main"], history.heads["main"] = theirs, local
    tree = {**history.commits[theirs].tree, **history.commits[local].tree}
    ref = "origin/heads/main"
    checks: dict[str, Check] = {
        "pushed": lambda view: view.refs[ref] == view.refs.get(MAIN),
        "kept": lambda view: view.contains(ref, view.hashes[theirs]),
        "commits": lambda view: subjects <= set(view.subjects(ref, view.hashes[theirs])),
        "content": _has_content(ref, tree),
    }
    return Request(
        text="origin has commits on main that the local main lacks, and the local main has commits that origin lacks. "
        "Bring them together on main, by a merge or a rebase, and push main to origin. No commit may be lost.",
        checks=checks,
        changes=frozenset({MAIN, ref}),
    )


def _has_content(ref: str, tree: Tree) -> Check:
    files = {path: blob(text) for path, text in tree.items()}

    def has_files(view: RepositoryView) -> bool:
        return view.tree(ref) == files

    return has_files
