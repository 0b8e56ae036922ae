"""The commands of git that an agent may run, and their options. All else is refused.

Refused are options and subcommands that run programs, read or write files outside the work tree, open an editor or a
pager, change the configuration, or reach another repository than origin.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_ARGUMENTS = 60
_MESSAGE = frozenset({"-m", "--message"})
_REMOTE = "origin"
_WIDE = re.compile(r"\d{4}")
"""Widths of a format beyond 999 fill the memory."""


_WITH_WIDTH = frozenset({"--format", "--pretty", "--stat", "--unified", "--abbrev", "--date"})


class Refused(ValueError):
    """A command that may not run. The message names the argument and the remedy; nothing has run."""


@dataclass(frozen=True, kw_only=True)
class Subcommand:
    """What may follow the name of a subcommand."""

    options: frozenset[str]
    """Long options by their whole names, and short ones of a letter. `-9` stands for a number."""
    first: frozenset[str] | None = None
    """What the first argument that is no option may be; None: anything."""
    has_message: bool = False
    """Whether `-m` is followed by a message, which may contain anything."""


def _subcommand(options: str = "", first: str | None = None, *, has_message: bool = False) -> Subcommand:
    return Subcommand(
        options=frozenset(options.split()) | (_MESSAGE if has_message else frozenset()),
        first=None if first is None else frozenset(first.split()),
        has_message=has_message,
    )


_PICKING = "--continue --abort --skip --quit -n --no-commit -m --mainline -x --no-edit --allow-empty -X"
_SHOWN = (
    "--stat --name-only --name-status --oneline --format --pretty --patch -p --no-patch -s --unified -U --raw "
    "--shortstat --summary --no-color --abbrev-commit --date -w --word-diff -M"
)
_SELECTED = (
    "-9 -n --max-count --skip --all --branches --tags --remotes --graph --decorate --reverse --first-parent --merges "
    "--no-merges --follow --grep --author --since --until --diff-filter -S -G -i --topo-order --left-right "
    "--cherry-pick --cherry-mark -g --walk-reflogs --full-history --parents --not"
)

ALLOWED: Mapping[str, Subcommand] = {
    "add": _subcommand("-A --all -u --update -f --force -n --dry-run -v --verbose"),
    "bisect": _subcommand("--no-checkout --first-parent", "start good bad new old skip reset log"),
    "blame": _subcommand("-L -w -s -l --date"),
    "branch": _subcommand(
        "-a --all -r --remotes -v -vv --verbose -d --delete -D -m --move -M -c --copy -f --force --merged --no-merged "
        "--contains --no-contains --list --show-current -u --set-upstream-to --unset-upstream --sort --points-at"
    ),
    "cat-file": _subcommand("-p -t -s -e"),
    "checkout": _subcommand("-b -B -f --force --ours --theirs --orphan -t --track --detach -q --quiet --no-track"),
    "cherry": _subcommand("-v --abbrev"),
    "cherry-pick": _subcommand(_PICKING.replace("-x", "-x --ff")),
    "clean": _subcommand("-f --force -d -n --dry-run -x -q --quiet"),
    "commit": _subcommand(
        "-a --all --amend --no-edit --allow-empty -C --reuse-message --author --date --reset-author -q --quiet -v "
        "--verbose --dry-run --fixup --squash",
        has_message=True,
    ),
    "describe": _subcommand("--tags --all --always --long --exact-match --abbrev"),
    "diff": _subcommand(f"{_SHOWN} --cached --staged --merge-base --check --quiet --exit-code --diff-filter -S -G -R"),
    "fetch": _subcommand("--all -p --prune -t --tags -q --quiet -v --verbose --dry-run --no-tags", _REMOTE),
    "for-each-ref": _subcommand("--sort --count --format --points-at --merged --no-merged --contains"),
    "grep": _subcommand("-n -i -l -c -w -e -E -F --cached --count --line-number"),
    "log": _subcommand(f"{_SHOWN} {_SELECTED}"),
    "ls-files": _subcommand("-s --stage -u --unmerged -m --modified -o --others -d --deleted -c --cached"),
    "ls-tree": _subcommand("-r -t -l --name-only --full-tree"),
    "merge": _subcommand("--no-ff --ff --ff-only --squash --no-commit --no-edit --abort --continue --quit -X "
                         "--allow-unrelated-histories", has_message=True),
    "merge-base": _subcommand("--all -a --is-ancestor --fork-point --octopus"),
    "mv": _subcommand("-f --force -k -n --dry-run -v --verbose"),
    "pull": _subcommand("-r --rebase --no-rebase --ff --ff-only --no-ff --no-edit -q --quiet --tags", _REMOTE),
    "push": _subcommand("-u --set-upstream -f --force --force-with-lease -d --delete --tags --follow-tags --all "
                        "-n --dry-run -q --quiet -v --verbose", _REMOTE),
    "rebase": _subcommand("--continue --abort --skip --quit --onto --root --no-ff -X --keep-base "
                          "--reapply-cherry-picks --rebase-merges --committer-date-is-author-date"),
    "reflog": _subcommand("-9 --all --date --oneline", "show HEAD main"),
    "remote": _subcommand("-v --verbose", "show"),
    "reset": _subcommand("--soft --mixed --hard --merge --keep -q --quiet"),
    "restore": _subcommand("-s --source -S --staged -W --worktree --ours --theirs -q --quiet"),
    "rev-list": _subcommand("-9 -n --max-count --all --count --left-right --first-parent --reverse --merges "
                            "--no-merges --parents --not"),
    "rev-parse": _subcommand("--short --verify --abbrev-ref -q --quiet --symbolic-full-name"),
    "revert": _subcommand(_PICKING),
    "rm": _subcommand("-r -f --force --cached -n --dry-run -q --quiet"),
    "show": _subcommand(f"{_SHOWN} --all"),
    "show-ref": _subcommand("--heads --tags --head -d --dereference --hash --abbrev"),
    "stash": _subcommand("-u --include-untracked --index -p --patch --stat -k --keep-index -q --quiet",
                         "push pop apply list show drop clear branch", has_message=True),
    "status": _subcommand("-s --short -b --branch --porcelain --long -u --untracked-files --ignored -v --verbose"),
    "switch": _subcommand("-c --create -C --force-create -d --detach -f --force --orphan -t --track --no-track -q "
                          "--quiet --discard-changes"),
    "tag": _subcommand("-a --annotate -d --delete -f --force -l --list -n --sort --contains --points-at --merged "
                       "--no-merged --format", has_message=True),
}  # fmt: skip


def words_of(command: str | Sequence[str]) -> list[str]:
    """The arguments of a command line, or those given. Raises Refused for quotes that do not end, and for none."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise Refused(f"command={command[:80]!r}: {error}. Close the quotes.") from None
    if not words:
        raise Refused("command: it is empty. Give one such as `git status`.")
    if len(words) > MOST_ARGUMENTS:
        raise Refused(f"command: it has {len(words)} arguments; at most {MOST_ARGUMENTS} are allowed.")
    for word in words:
        if "\0" in word or not _is_utf8(word):
            raise Refused(f"argument {word[:80]!r}: it contains a character that no argument may have. Leave it out.")
    return words


def checked_git_arguments(words: Sequence[str]) -> list[str]:
    """The arguments after `git`. Raises Refused unless all of them are allowed."""
    if not words or words[0] not in ALLOWED:
        name = words[0] if words else ""
        raise Refused(f"git {name[:80]}: expected one of {', '.join(ALLOWED)}, without options before it.")
    name, *rest = words
    known = ALLOWED[name]
    plain: list[str] = []
    is_message = False
    for word in rest:
        if word.startswith("-") and word != "-":  # behind `--` too: git passes some of these on to other commands
            is_message = word != "--" and _check_option(name, known, word)
        elif is_message:
            is_message = False
        else:
            _check_path(word)
            plain.append(word)
    if known.first is not None and plain and plain[0] not in known.first:
        raise Refused(f"git {name} {plain[0][:80]}: expected one of {', '.join(sorted(known.first))}.")
    if name == "remote" and any(word != _REMOTE for word in plain[1:]):
        raise Refused(f"git remote show {plain[1][:80]}: the only remote is {_REMOTE}.")
    return list(words)


def _check_option(name: str, known: Subcommand, word: str) -> bool:
    """Whether a message follows. Raises Refused for an option that is not allowed."""
    option, has_value, value = word.partition("=")
    if word.startswith("--"):
        if option not in known.options:
            raise _not_allowed(name, known, option)
        if option == "--message":
            return not has_value
        _check_path(value)
        if option in _WITH_WIDTH:
            _check_width(word, value)
        return False
    if re.fullmatch(r"-\d{1,3}", word):
        if "-9" not in known.options:
            raise _not_allowed(name, known, word)
        return False
    if word in known.options:
        return known.has_message and word == "-m"
    letters = word[1:]
    if known.has_message and letters.endswith("m") and "m" not in letters[:-1]:
        return all(_require_letter(name, known, letter) for letter in letters)
    for letter in letters.rstrip("0123456789"):
        _require_letter(name, known, letter)
    _check_width(word, letters)
    return False


def _require_letter(name: str, known: Subcommand, letter: str) -> bool:
    if f"-{letter}" not in known.options:
        raise _not_allowed(name, known, f"-{letter}")
    return True


def _check_width(word: str, value: str) -> None:
    if _WIDE.search(value):
        raise Refused(f"argument {word[:80]!r}: a number has at most 3 digits here.")


def _check_path(word: str) -> None:
    """Refuse what may name a file outside the work tree, a file of the repository itself, or another repository."""
    parts = re.split(r"[/\\:]", word)
    if word.startswith(("/", "~")) or ".." in parts:
        raise Refused(f"argument {word[:80]!r}: paths are those of the work tree, without `..` and without `/` before.")
    if any(part.lower().rstrip(". ") in (".git", "git~1") for part in parts):
        raise Refused(f"argument {word[:80]!r}: the folder .git is changed by git alone. Name another path.")
    if "::" in word or "://" in word:
        raise Refused(f"argument {word[:80]!r}: the only other repository is {_REMOTE}.")
    if "%" in word:
        _check_width(word, word)


def _not_allowed(name: str, known: Subcommand, option: str) -> Refused:
    allowed = ", ".join(sorted(known.options))
    return Refused(f"git {name} {option[:80]}: the option is not allowed. Allowed, by their whole names: {allowed}.")


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
