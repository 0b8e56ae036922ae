"""Random requests over HTTP: no crash, no hang, no leak, and only answers that the OpenAPI schema names."""

import random
import time
from collections import Counter
from itertools import count

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from openenv.hosting.local_process import LocalServer
from tests.fuzz.attack import PATHS

pytestmark = pytest.mark.process

ANSWER_S = 10.0
ROUND = 5
"""Requests to one operation before the next has its turn."""
OURS_TO_JUDGE = [not_a_server_error, positive_data_acceptance]
"""The schema does not describe which actions an environment takes, and what it raises."""
SERVED = {
    "echo": ("openenv.envs.echo_env.server.app", [], "echo_env"),
    "tic_tac_toe": ("openenv.envs.openspiel_env.server.app", ["--game", "tic_tac_toe"], "openspiel_env"),
}


@pytest.mark.parametrize("name", SERVED)
def test_odd_requests_get_documented_answers(name, capsys):
    _fuzz(name, seconds=3, seed=random.SystemRandom().getrandbits(32), capsys=capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
def test_a_minute_of_odd_requests_gets_documented_answers(name, capsys):
    _fuzz(name, seconds=30, seed=random.SystemRandom().getrandbits(32), capsys=capsys)


def _fuzz(name, seconds, seed, capsys):
    module, args, served_as = SERVED[name]
    counted = Counter()
    with capsys.disabled():
        print(f"\n{name}: seed {seed}")
    with LocalServer(module, args) as server:
        schema = schemathesis.openapi.from_url(f"{server.base_url}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations()]
        deadline = time.monotonic() + seconds
        for number in count():
            for operation in operations:
                _round(operation, served_as, random.Random(f"{seed} {number} {operation.label}"), counted)
            if time.monotonic() > deadline:
                break
        with capsys.disabled():
            print(f"{name}: {sum(counted.values())} requests to {len(operations)} operations: {dict(counted)}")

        assert httpx.post(f"{server.base_url}/reset", json={"seed": 1}).status_code == 200
        assert "Exception in ASGI" not in server.output()


def _name_what_there_is(case, name):
    """A random environment or session is almost always unknown, and then nothing behind it is asked."""
    if "name" in (case.path_parameters or {}):
        case.path_parameters["name"] = name
    if case.headers:
        case.headers.pop("X-Session-Id", None)


def _round(operation, name, rng, counted):
    """A few requests to one operation, half of them against its schema where it has one to break."""
    mode = rng.choice((GenerationMode.POSITIVE, GenerationMode.NEGATIVE))
    strategy = operation.as_strategy(mode)
    excluded = [*OURS_TO_JUDGE, negative_data_rejection] if operation.path == "/mcp" else OURS_TO_JUDGE

    @hypothesis_seed(rng.getrandbits(32))
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck),
              phases=[Phase.generate])  # fmt: skip
    @given(strategy)
    def ask(case):
        if mode is GenerationMode.POSITIVE and rng.random() < 0.5:
            _name_what_there_is(case, name)
        response = case.call_and_validate(timeout=ANSWER_S, excluded_checks=excluded)
        counted[response.status_code] += 1
        text = response.content.decode()
        assert "Traceback" not in text
        assert not any(path in text for path in PATHS), text[:2000]
        if response.status_code >= 500:
            refused_by_environment = response.status_code == 500 and '"code":"EXECUTION_ERROR"' in text
            assert response.status_code in (501, 503, 504) or refused_by_environment, text[:2000]

    try:
        ask()
    except Unsatisfiable:  # there is nothing in this operation that could be wrong
        counted["nothing to get wrong"] += 1
