"""Which Dockerfiles a sandbox can follow without an engine: those that copy files and install nothing."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

PLAIN_SYSTEMS = ("ubuntu", "debian", "python", "alpine", "busybox")
"""Images in whose place the system of this machine may stand."""
_WITHOUT_EFFECT = ("CMD", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL")
"""Instructions that change no file, and nothing of a command that an agent runs."""
_OF_THE_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "proc", "dev", "sys", "run", "session")
_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#.*\n)*")


class NeedsEngine(Exception):
    """The Dockerfile has an instruction that a sandbox cannot follow, which the message names."""


@dataclass(kw_only=True)
class Plan:
    """What a sandbox begins with."""

    files: dict[str, Path] = field(default_factory=dict)
    """By the path where the sandbox has them."""
    variables: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    directories: set[str] = field(default_factory=set)
    """Directories of the root that hold files or the working directory."""

    def enter(self, path: str) -> str:
        """A path from the working directory, whose directory of the root is one of the plan's from then on.

        Raises NeedsEngine for one of the system.
        """
        found = PurePosixPath(self.workdir, path)
        if ".." in found.parts or len(found.parts) < 2 or found.parts[1] in _OF_THE_SYSTEM:
            raise NeedsEngine(f"{found} is not a directory that a sandbox may write")
        if found.parts[1] != "tmp":
            self.directories.add(f"/{found.parts[1]}")
        return str(found)


def plan_of(dockerfile: Path) -> Plan:
    """What a sandbox does in place of a build. Raises NeedsEngine, with the line, where it cannot."""
    plan, num_images = Plan(), 0
    if (dockerfile.parent / ".dockerignore").exists():
        raise NeedsEngine(f"{dockerfile.parent / '.dockerignore'} is for a build")
    for line, instruction, rest in _instructions(dockerfile.read_text(encoding="utf-8")):
        num_images += instruction == "FROM"
        try:
            if num_images > 1:
                raise NeedsEngine("it builds in several stages")
            _follow(plan, dockerfile.parent, instruction, rest)
        except (NeedsEngine, ValueError) as error:
            raise NeedsEngine(f"{dockerfile}, line {line}: {instruction} {rest:.60}: {error}") from None
    return plan


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, instruction and arguments of each instruction. Lines that are continued are one."""
    line = 1
    for whole in _joined(text).split("\n"):
        first, _, rest = whole.strip().replace("\0", " ").partition(" ")
        if first and not first.startswith("#"):
            yield line, first.upper(), rest.strip()
        line += 1 + whole.count("\0")


def _joined(text: str) -> str:
    """The text with a zero byte for each end of a line that is continued."""
    return _CONTINUED.sub(lambda found: "\0" * found[0].count("\n"), text.replace("\r\n", "\n"))


def _follow(plan: Plan, context: Path, instruction: str, rest: str) -> None:
    """Take one instruction. Raises NeedsEngine, and ValueError for quotes that do not end."""
    if instruction in _WITHOUT_EFFECT:
        return
    if "$" in rest:
        raise NeedsEngine("its variables are those of a build")
    if instruction == "FROM":
        image = rest.split()[0].removeprefix("docker.io/").removeprefix("library/").partition(":")[0]
        if image not in PLAIN_SYSTEMS:
            raise NeedsEngine(f"the files of that image are unknown here; plain ones are {', '.join(PLAIN_SYSTEMS)}")
    elif instruction == "WORKDIR":
        plan.workdir = plan.enter(rest)
    elif instruction == "ENV":
        plan.variables.update(_variables(rest))
    elif instruction == "COPY":
        _copy(plan, context, rest)
    elif not (instruction == "USER" and rest in ("root", "0")):
        raise NeedsEngine("it changes what is installed")


def _variables(rest: str) -> dict[str, str]:
    words = shlex.split(rest)
    if "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _copy(plan: Plan, context: Path, rest: str) -> None:
    words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    if words[0].startswith("--"):
        raise NeedsEngine(f"{words[0].partition('=')[0]} is an option of a build")
    *patterns, target = words
    sources = [path for pattern in patterns for path in _found(context, pattern)]
    is_folder = target.endswith("/") or target in (".", "..") or len(sources) > 1
    into = plan.enter(target)
    for source in sources:
        if source.is_dir():  # its files are copied, and not itself
            plan.files.update({f"{into}/{path.name}": path for path in sorted(source.iterdir())})
        else:
            plan.files[f"{into}/{source.name}" if is_folder else into] = source


def _found(context: Path, pattern: str) -> list[Path]:
    """The files of a pattern. Raises NeedsEngine where there are none, or where they are not of the context."""
    pattern = pattern.removeprefix("./").strip("/")
    found = [context] if pattern in ("", ".") else sorted(context.glob(pattern))
    root = context.resolve()
    if not found or not all(path.resolve().is_relative_to(root) for path in found):
        raise NeedsEngine(f"there is no {pattern} in {context}")
    return found
