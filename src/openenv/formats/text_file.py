"""Text as UTF-8 on every machine, and as much of it as a terminal can show."""

import sys
from pathlib import Path


def read_utf8(path: Path) -> str:
    """The text of a file. Raises ValueError, with its name and the place, where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 at byte {error.start}: save it with the encoding UTF-8") from error


def printable(text: str) -> str:
    """The text with a question mark for each character that standard output cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
