"""The code of the tutorials, cell by cell, with the line breaks and the indentation that their stored text has lost."""

import ast
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

_CELL = re.compile(
    r"^```(?P<language>\w+)\n(?P<fenced>.*?)^```$"
    r"|^In \[None\]:\n(?P<notebook>.*?)(?=^#{2,} |^In \[None\]:|\Z)"
    r"|<pre[^>]*>(?P<shown>.*?)</pre>",
    re.DOTALL | re.MULTILINE,
)
_OUTPUT = re.compile(r"\s*\*\*Output:\*\*\n```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STATEMENTS = ("import ", "from ", "# ", "print(", "if ", "show_openenv_observation(", "env.")
_ASSIGNED = ("openenv_path", "env", "result", "stats", "trainer")
_LOST_BREAK = re.compile(rf"(?<=\S)(?={'|'.join(map(re.escape, _STATEMENTS))}|(?:{'|'.join(_ASSIGNED)}) = )")
_LOST_BLOCK = re.compile(r":(?= {4}\w)")
_CUT_CHARACTER = re.compile("โ\n")
"""A check mark was read in an encoding in which its last byte is a line break."""


@dataclass(frozen=True)
class Cell:
    """What one block of a tutorial shows."""

    language: str
    code: str
    output: str = ""
    """What the tutorial shows as its output."""

    @property
    def digest(self) -> str:
        """Identifies the cell by its content, white space aside."""
        return _digest("".join(self.code.split()))


def cells_of(path: Path, indentations: Mapping[str, str]) -> list[Cell]:
    """The code of a tutorial in order. indentations: for `shape_of` a cell, a digit for each line's depth."""
    text = _CUT_CHARACTER.sub("โ ", path.read_text(encoding="utf-8"))
    cells = []
    for found in _CELL.finditer(text):
        language = found["language"] or ("bash" if found["shown"] else "python")
        code = (found["fenced"] or found["notebook"] or found["shown"]).strip("\n")
        output = _OUTPUT.match(text, found.end())
        shown = laid_out(code, indentations) if language == "python" else code
        cells.append(Cell(language, shown, output[1] if output else ""))
    return cells


def shape_of(code: str) -> str:
    """Identifies a cell by the first word of each line: constants and texts may change."""
    return _digest(" ".join(line.split()[0] if line.strip() else "" for line in code.splitlines()))


def laid_out(code: str, indentations: Mapping[str, str]) -> str:
    """The code as Python can read it, or as it is stored if that is not known."""
    if _is_readable(code):
        return code
    depths = indentations.get(shape_of(code))
    if depths is not None:
        return "\n".join("    " * int(depth) + line for depth, line in zip(depths, code.splitlines(), strict=True))
    broken = "\n".join(_LOST_BLOCK.sub(":\n", _LOST_BREAK.sub("\n", line)) for line in code.splitlines())
    return broken if _is_readable(broken) else code


def _is_readable(code: str) -> bool:
    try:
        compile(TransformerManager().transform_cell(code), "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
