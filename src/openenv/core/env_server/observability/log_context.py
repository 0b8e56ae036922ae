"""Adds session and episode to every log line of a server, those of environment code included."""

import logging
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from openenv.formats.json_text import json_text

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s%(where)s: %(message)s"


class EpisodeContext(NamedTuple):
    """The episode in which a verb runs."""

    session: str
    name: str
    """The client's episode id, or the number of the reset in its session."""


current_episode: ContextVar[EpisodeContext | None] = ContextVar("current_episode", default=None)


class TextLines(logging.Formatter):
    """One line for each record, and a traceback in indented lines: no text of a client can pass for another record."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with escapes in place of characters that break it or do not print."""
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_escaped, line))

    def formatException(self, ei: Any) -> str:
        """The traceback."""
        return "\n".join(f"    {''.join(map(_escaped, line))}" for line in super().formatException(ei).splitlines())


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class EpisodeFilter(logging.Filter):
    """Adds `session`, `episode` and, as text of both, `where` to each record; drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the three attributes. Returns True."""
        here = current_episode.get()
        record.session, record.episode = here or (None, None)
        record.where = f" [session {here.session} episode {here.name}]" if here else ""
        return True


class JsonLines(logging.Formatter):
    """One JSON object for each record: time, level, logger, message, session, episode, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "session": getattr(record, "session", None),
            "episode": getattr(record, "episode", None),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_text({key: value for key, value in line.items() if value is not None})


def configure_logging(level: int | str, log_format: LogFormat = "text") -> None:
    """Log to stderr from `level` on, as text or as JSON lines; for programs, not for libraries."""
    handler = logging.StreamHandler()
    handler.addFilter(EpisodeFilter())
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def logging_settings() -> tuple[int, LogFormat]:
    """Level and format of this process's log, with which another process is configured alike."""
    root = logging.getLogger()
    is_json = any(isinstance(handler.formatter, JsonLines) for handler in root.handlers)
    return root.level, "json" if is_json else "text"
