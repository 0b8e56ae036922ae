"""The process that loads reasoning-gym: it reads requests from stdin and writes responses to stdout, a JSON line each.

`library_process.py` starts it. A request that takes too much processor time ends the process by SIGPROF.
"""

import json
import os
import resource
import signal
import sys
from typing import Any, TextIO

from openenv.envs.reasoning_gym_env.server.datasets import Datasets
from openenv.formats.json_text import json_text

TASK_LIMIT_S, SCORE_LIMIT_S = 10.0, 5.0
"""Processor time of a request."""
_MEMORY_BYTES = 4 << 30


def main() -> None:
    """Answer requests until stdin ends."""
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the code of the dataset codeio prints
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    datasets = Datasets()
    _respond(responses, {})  # the library is loaded
    for line in sys.stdin:
        _respond(responses, _answer(datasets, json.loads(line)))


def _answer(datasets: Datasets, request: dict[str, Any]) -> dict[str, Any]:
    is_score = "answer" in request
    signal.setitimer(signal.ITIMER_PROF, SCORE_LIMIT_S + TASK_LIMIT_S if is_score else TASK_LIMIT_S)
    try:
        task = datasets.task(**{name: value for name, value in request.items() if name != "answer"})
        if not is_score:
            return task
        signal.setitimer(signal.ITIMER_PROF, SCORE_LIMIT_S)  # the task itself may have been made anew
        return datasets.score(**request)
    except ValueError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - border: a dataset raises anything for odd settings
        return {"error": f"{request['dataset']} made no task: {type(error).__name__}: {str(error)[:300]}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _respond(responses: TextIO, response: dict[str, Any]) -> None:
    responses.write(json_text(response) + "\n")
    responses.flush()


if __name__ == "__main__":
    main()
