"""What a test sees of a running server from outside."""

import os
import time
from collections.abc import Callable

import httpx
from prometheus_client.parser import text_string_to_metric_families

from openenv.hosting.local_process import LocalServer


def num_sessions(url: str) -> int:
    """Sessions of the server."""
    return int(httpx.get(f"{url}/ready").json()["sessions"])


def num_queued(url: str) -> float:
    """Callers that wait for a session, in the queues of all workers."""
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
    return sum(s.value for family in families if family.name == "openenv_sessions_waiting" for s in family.samples)


def wait_for_running_verbs(url: str, session_id: str) -> None:
    """Return when the session has finished the verbs that it runs: verbs of a session run one after the other."""
    httpx.get(f"{url}/state", headers={"X-Session-Id": session_id}).raise_for_status()


def exit_code(server: LocalServer) -> int:
    """The exit code of a server that is ending."""
    ended = os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status


def is_running(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], timeout_s: float = 15.0, interval_s: float = 0.02) -> None:
    """Poll a server until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(interval_s)
