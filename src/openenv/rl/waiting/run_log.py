"""The log of all processes of a run, in one file of its folder."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from openenv.core.env_server.observability.log_context import EpisodeFilter, TextLines

_NAME = "run.log"


@contextlib.contextmanager
def logged_to_run(run_dir: Path, name: str) -> Iterator[None]:
    """Add what this process logs to the run's file, for the time of the `with` statement.

    name: of the process, which each line has.
    """
    handler = logging.FileHandler(run_dir / _NAME, encoding="utf-8")
    handler.addFilter(_InProcess(name))
    handler.setFormatter(TextLines())
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


class _InProcess(EpisodeFilter):
    """Adds the name of the process too."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._process = name

    def filter(self, record: logging.LogRecord) -> bool:
        """As `EpisodeFilter.filter`."""
        super().filter(record)
        record.where = f" [{self._process}]{record.__dict__['where']}"
        return True
