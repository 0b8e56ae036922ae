"""Suggests other words: `python -m tests.structure.wording`, which `make lint` runs. It fails nothing.

Lines and sentences of documents are short, and the part that acts is named: no `who`, `nobody` or `told` of programs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_docs import DOCUMENTS, FENCE, ROOT

MAX_LINE = 120
MAX_SENTENCE_WORDS = 40
_NO_PARTS = r"whom?|whoever|nobody|somebody|told|tells?|hears?|goodbye|in[ _]vain"
_WORDS = re.compile(rf"\b({_NO_PARTS})\b", re.IGNORECASE)
_WORDS_OF_TESTS = re.compile(rf"(?<![a-z])({_NO_PARTS}|heard|said|says)(?![a-z])", re.IGNORECASE)
"""Names of tests and variables count too: `_` ends a word."""
_QUOTED_IN = {"tests/structure/wording.py", "tests/text/replies.py"}
"""Files with these words in quotations: the patterns above, and replies of a model."""


def suggestions() -> Iterator[str]:
    """Each place with its line and what may be better."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        yield from _places(path, _WORDS)
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > MAX_LINE:
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for sentence in _sentences(text):
            if len(sentence.split()) > MAX_SENTENCE_WORDS:
                yield f"{path.relative_to(ROOT)}: {len(sentence.split())} words: {sentence:.80}"
    for path in sorted(ROOT.glob("src/**/*.py")):
        yield from _places(path, _WORDS)
    for path in sorted(ROOT.glob("tests/**/*.py")):
        if str(path.relative_to(ROOT)) not in _QUOTED_IN:
            yield from _places(path, _WORDS_OF_TESTS)


def _places(path: Path, words: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for found in words.finditer(line):
            yield f"{path.relative_to(ROOT)}:{number}: {found[0]!r}"


def _sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs and list items: no code, no tables, no headings."""
    prose = FENCE.sub("", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s?)", prose):
        if not paragraph.lstrip().startswith(("|", "#")):
            words = re.sub(r"`[^`]*`", "code", " ".join(paragraph.split()))
            yield from re.split(r"(?<=[.!?:])\s+", words)


if __name__ == "__main__":
    for suggestion in suggestions():
        print(suggestion)
