"""The page of what fails: its messages are those of the code, so that a search for one finds it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/when-it-fails.md").read_text(encoding="utf-8")
_CELL = re.compile(r"^\| (.+?) \|", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_BY_THE_SYSTEM = {"Address already in use"}
"""Parts of messages that the operating system writes."""
_SHORT = 8


def _messages() -> str:
    """All texts of the source, one a line; of an f-string with dots where a value goes."""
    texts = []
    for path in sorted(ROOT.glob("src/openenv/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.ClassDef):
                texts.append(node.name)
    return "\n".join(texts)


def _symptoms() -> list[str]:
    """What the first column of the tables has as code."""
    return sorted({symptom for cell in _CELL.findall(PAGE) for symptom in _CODE.findall(cell)})


MESSAGES = _messages()


@pytest.mark.parametrize("symptom", _symptoms())
def test_a_symptom_of_the_page_is_a_message_of_the_code(symptom: str) -> None:
    parts = [part for part in re.split(r" ?\.\.\.[ :,)]*|%[sd]", symptom) if len(part) >= _SHORT]

    assert [part for part in parts if part.strip() not in MESSAGES and part.strip() not in _BY_THE_SYSTEM] == []
