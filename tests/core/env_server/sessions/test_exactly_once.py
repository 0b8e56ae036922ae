"""Whatever happens to a session: each accepted action happened once, or its client knows that it may not have.

A stateful property test sends requests in any order, cuts connections, repeats requests, takes sessions over, lets late
bytes arrive, and breaks the environment, its process, the encoding of its observation, and the disk of the recorder.
"""

import contextlib
import itertools
import json
import os
from collections import Counter
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from openenv.core import Action, Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.wire.constants import SUBPROTOCOL

pytestmark = pytest.mark.finding("each accepted action happened once, or the client knows that it may not have")

LEDGER = "OPENENV_TEST_LEDGER"
"""The environment variable that names the file to which each action that happens is appended."""
NUMBERS = itertools.count(1)
NUM_KEPT = 15
"""So many of the newest requests have their responses kept for certain, less one."""
FAULTS = ["", "", "", "raises before", "raises after", "cannot be encoded"]


class LedgerAction(Action):
    n: int
    fault: str = ""


class LedgerObservation(Observation):
    seen: list[int]
    extra: object = None


class LedgerEnvironment(Environment[LedgerAction, LedgerObservation, State]):
    """Notes each action in a file, and in the episode."""

    def __init__(self) -> None:
        self._seen: list[int] = []

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> LedgerObservation:
        self._seen = []
        return LedgerObservation(seen=[])

    def step(self, action: LedgerAction, timeout_s: float | None = None) -> LedgerObservation:
        if action.fault == "raises before":
            raise ValueError("before")
        with open(os.environ[LEDGER], "a") as ledger:
            ledger.write(f"{action.n}\n")
        self._seen.append(action.n)
        if action.fault == "raises after":
            raise ValueError("after")
        if action.fault == "ends the process":
            os._exit(3)
        extra = object() if action.fault == "cannot be encoded" else None
        return LedgerObservation(seen=list(self._seen), extra=extra)

    @property
    def state(self) -> State:
        return State()

    def save_state(self) -> bytes:
        return orjson.dumps(self._seen)

    def load_state(self, snapshot: bytes) -> None:
        self._seen = orjson.loads(snapshot)


class Sessions(RuleBasedStateMachine):
    """One session and its client. `seen` are the actions of the episode, `unsure` those that may have happened."""

    def __init__(self, url: str, folder: Path, *, has_process: bool) -> None:
        super().__init__()
        self._url = url.replace("http", "ws") + "/ws"
        self._folder = folder
        self._has_process = has_process
        self._num_requests = 0
        self._replaced: list[ClientConnection] = []
        self._connection, hello = self._connect("")
        self._session_id = hello["data"]["session_id"]
        self._steps: list[tuple[int, dict, dict | None]] = []
        """Number, request, and response as far as it is known, of the steps since the last reset or restore."""
        self._token: tuple[str, list[int]] | None = None
        self.seen: list[int] = []
        self.unsure: set[int] = set()
        self.confirmed: set[int] = set()
        self.reset()

    def _connect(self, query: str) -> tuple[ClientConnection, dict]:
        connection = connect(self._url + query, subprotocols=[SUBPROTOCOL], ping_interval=None, legacy=True)
        return connection, json.loads(connection.recv(10))

    def _attach(self) -> None:
        self._connection, _ = self._connect(f"?session_id={self._session_id}")

    def _request(self, kind: str, **data: object) -> dict:
        self._num_requests += 1
        return {"type": kind, "id": f"r{self._num_requests}", **({"data": data} if data else {})}

    def _step_request(self, fault: str) -> dict:
        return self._request("step", n=next(NUMBERS), fault=fault)

    def _ask(self, request: dict) -> dict:
        self._connection.send(orjson.dumps(request).decode())
        response = json.loads(self._connection.recv(10))
        assert response["id"] == request["id"]
        return response

    def _learn(self, n: int, response: dict, *, is_newest: bool = True) -> None:
        """The model: what an observation shows is what happened, once each, in order. What the newest one does not show
        never will happen."""
        if response["type"] == "error":
            self.unsure.add(n)
            return
        seen = response["data"]["observation"]["seen"]
        assert n in seen
        assert [m for m in seen if m in self.seen] == self.seen
        assert set(seen) <= {*self.seen, *self.unsure, n}
        self.seen, self.confirmed = seen, self.confirmed | {n}
        self.unsure = set() if is_newest else self.unsure - set(seen)

    @rule(fault=st.sampled_from(FAULTS))
    def step(self, fault: str) -> None:
        request = self._step_request(fault)
        response = self._ask(request)
        self._steps.append((self._num_requests, request, response))
        self._learn(request["data"]["n"], response)

    @rule(fault=st.sampled_from(FAULTS))
    def step_and_lose_the_connection(self, fault: str) -> None:
        request = self._step_request(fault)
        self._connection.send(orjson.dumps(request).decode())
        self._connection.socket.close()
        self._steps.append((self._num_requests, request, None))
        self.unsure.add(request["data"]["n"])
        self._attach()

    @precondition(lambda self: self._steps)
    @rule(back=st.integers(1, 6))
    def repeat(self, back: int) -> None:
        index = max(len(self._steps) - back, 0)
        number, request, known = self._steps[index]
        if number <= self._num_requests - NUM_KEPT:
            return
        response, n = self._ask(request), request["data"]["n"]
        assert known is None or response == known
        self._steps[index] = number, request, response
        if n in self.seen and response["type"] != "error":
            self.confirmed.add(n)
        elif known is None:
            self._learn(n, response, is_newest=False)  # it may be of the time before the connection was lost

    @rule()
    def take_over(self) -> None:
        self._replaced.append(self._connection)
        self._attach()

    @precondition(lambda self: self._replaced)
    @rule(fault=st.sampled_from(FAULTS))
    def late_bytes_of_a_replaced_connection(self, fault: str) -> None:
        late = self._replaced.pop()
        with contextlib.suppress(ConnectionClosed, OSError):
            late.send(orjson.dumps(self._step_request(fault)).decode())
            late.recv(5)

    @rule()
    def reset(self) -> None:
        response = self._ask(self._request("reset", seed=1))
        if response["type"] == "error":  # it may have happened, or not
            self._repair_disk()
            response = self._ask(self._request("reset", seed=1))
        assert response["data"]["observation"]["seen"] == []
        self._begin([])

    def _begin(self, seen: list[int]) -> None:
        self.seen, self._steps = seen, []
        self.unsure.clear()

    @precondition(lambda self: self._has_process)
    @rule()
    def the_process_ends(self) -> None:
        assert self._ask(self._step_request("ends the process"))["type"] == "error"
        assert self._ask(self._step_request(""))["type"] == "error"
        self.reset()

    @rule()
    def save(self) -> None:
        response = self._ask(self._request("save"))
        if response["type"] != "error" and not self.unsure:
            self._token = response["data"]["token"], self.seen

    @precondition(lambda self: self._token)
    @rule()
    def restore(self) -> None:
        token, seen = self._token
        response = self._ask(self._request("restore", token=token))
        if response["type"] == "error":
            self.reset()
        else:
            self._begin(seen)

    @rule()
    def the_disk_of_the_recorder_fails(self) -> None:
        if self._folder.exists():
            self._folder.rename(self._folder.with_suffix(".away"))
        else:
            self._repair_disk()

    def _repair_disk(self) -> None:
        if not self._folder.exists():
            self._folder.with_suffix(".away").rename(self._folder)

    @invariant()
    def each_action_happened_once_or_may_not_have(self) -> None:
        counts = Counter(map(int, Path(os.environ[LEDGER]).read_text().split()))
        assert all(count == 1 for count in counts.values())
        assert self.confirmed <= counts.keys()

    def teardown(self) -> None:
        for connection in (self._connection, *self._replaced):
            with contextlib.suppress(OSError):
                connection.socket.close()
        self._repair_disk()


def _play(serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, execution: str, max_examples: int) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    (tmp_path / "ledger").touch()
    monkeypatch.setenv(LEDGER, str(tmp_path / "ledger"))
    config = ServerConfig(execution=execution, record_dir=folder)
    url = serving(create_app(LedgerEnvironment, config=config))
    run_state_machine_as_test(
        lambda: Sessions(url, folder, has_process=execution == "process"),
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


@pytest.mark.parametrize("execution", ["inline", "thread", "process"])
def test_each_action_happens_once_or_its_client_knows_better(serving, tmp_path, monkeypatch, execution):
    _play(serving, tmp_path, monkeypatch, execution, max_examples=4)


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["inline", "thread", "process"])
def test_each_action_happens_once_in_ten_thousand_steps(serving, tmp_path, monkeypatch, execution):
    _play(serving, tmp_path, monkeypatch, execution, max_examples=70)
