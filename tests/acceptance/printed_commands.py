"""The commands that the documents print, and what can be seen of one that is not run: whether its parts exist."""

import itertools
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.__main__ import PARTS
from packaging.requirements import Requirement
from typer.main import get_command

from openenv.cli.main import app

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(?:bash|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_IN_A_SENTENCE = re.compile(r"(?<!`)`(openenv\s[^`]+)`(?!`)")
_VARIABLE = re.compile(r"[A-Z_]+=\S*")

OTHER_PROGRAMS = {"apt-get", "kubectl", "sbatch", "torchrun", "trackio", "vllm"}
"""Programs of others. Their arguments are not checked."""


@dataclass(frozen=True)
class Printed:
    """A command of a page."""

    text: str
    """Exactly as it is printed, with its comment."""
    position: int
    """Where it begins in the page."""

    @property
    def words(self) -> list[str]:
        """The program and its arguments."""
        return shlex.split(self.text, comments=True)

    @property
    def key(self) -> str:
        """The command without its comment, and with single spaces."""
        return " ".join(self.words)


def commands_of(page: str) -> Iterator[Printed]:
    """The commands of a page's shell blocks, in order. One with an open quotation goes on in the next line."""
    for block in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
        pending, position = "", block.start(1)
        for line in block[1].splitlines(keepends=True):
            pending += line
            if _is_complete(pending):
                if shlex.split(pending, comments=True):
                    yield Printed(pending.rstrip("\n"), position)
                position, pending = position + len(pending), ""
        assert not pending, f"{page}: no end of {pending}"


def commands_in_sentences(page: str) -> set[str]:
    """The commands `openenv ...` that the text of a page has as code. Some stand for several: `openenv eval ...`."""
    text = _CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return {" ".join(found.split()) for found in _IN_A_SENTENCE.findall(text)}


def unknown_parts(command: str) -> list[str]:
    """The command's name and options that the command line does not have."""
    try:
        found, words = _command(command.partition(" | ")[0].split()[1:])
    except LookupError as error:
        return [str(error)]
    if found.context_settings.get("ignore_unknown_options"):
        return []
    known = {"--help", *(name for part in found.params for name in (*part.opts, *part.secondary_opts))}
    given = [word.split("=")[0].strip("[],.") for word in words if word.lstrip("[").startswith("-")]
    return [option for option in given if option not in known]


def _is_complete(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not text.endswith("\\\n")


def printed_file(page: str, after: str, number: int = 0) -> tuple[int, str]:
    """Where a code block begins in a page, and its text. number: of the block, counted from the text `after`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    block = list(_CODE.finditer(text, text.index(after)))[number]
    return block.start(), block[1]


def check_parts(command: Printed) -> None:
    """Raise AssertionError or an error of the command line if an option, a target, an extra or a module is unknown."""
    words = command.words
    while _VARIABLE.fullmatch(words[0]):
        del words[0]
    match words:
        case ["openenv", *arguments]:
            found, rest = _command(arguments)
            found.make_context("openenv", rest)  # parses, and calls nothing
        case ["make", *targets]:
            subprocess.run(["make", "-n", *targets], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        case ["pip", "install", *arguments]:
            _check_installation(arguments)
        case ["python", "-m", "benchmarks", *parts]:
            assert set(parts) <= PARTS.keys(), f"{parts}: the parts are {list(PARTS)}"
        case ["python", "-m", module, *_]:
            assert find_spec(module) is not None, module
        case [program, *_]:
            assert program in OTHER_PROGRAMS, f"{program} is no program whose arguments are known here"


def _command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first words name, and its arguments. Raises LookupError where there is none."""
    command: Any = get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def _check_installation(arguments: list[str]) -> None:
    """pip's arguments: constraints that are there, and extras of this package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    paths = [word for word in arguments if not word.startswith("-")]
    for option, value in itertools.pairwise(arguments):
        if option == "-c":
            assert (ROOT / value).is_file(), value
            paths.remove(value)
    for path in paths:
        assert path.startswith("."), f"{path} is on no package index: install it from the clone"
        unknown = Requirement(f"{project['name']}{path[1:]}").extras - project["optional-dependencies"].keys()
        assert not unknown, f"no extra {unknown}"
