"""Probes a game in another process before the server plays it with parameters that a client chose.

With some parameters OpenSpiel's C++ code ends the process (connect_four with 0 rows, hanabi with 0 colours), never
returns, or takes all memory. In the server that would end every session.
"""

import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from openenv.formats.json_text import json_text

TIMEOUT_S = 15.0
_PROGRAM = "openenv.envs.openspiel_env.server.probe.process"
MAX_CONCURRENT_PROBES = 2

_slots = threading.BoundedSemaphore(MAX_CONCURRENT_PROBES)


def refuse_unless_playable(game_name: str, game_params: Mapping[str, Any]) -> None:
    """Raise ValueError unless the game survives two short random episodes. The first call takes about a second.

    A game that OpenSpiel refuses by itself passes: loading it raises the better error.
    """
    failure = _probe_failure(game_name, json_text(dict(game_params), sort_keys=True))
    if failure:
        raise ValueError(
            f"game_params={dict(game_params)!r}: {game_name!r} cannot be played with these: a probe in another process "
            f"{failure}"
        )


@lru_cache(maxsize=1024)
def _probe_failure(game_name: str, params_json: str) -> str | None:
    """Return how the probe failed, or None."""
    command = [sys.executable, "-m", _PROGRAM, game_name, params_json]
    with _slots:
        try:
            done = subprocess.run(
                command, capture_output=True, encoding="utf-8", errors="replace", timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"timed out after {TIMEOUT_S:.0f} seconds."
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"was ended by signal {-done.returncode}."
    return f"failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
