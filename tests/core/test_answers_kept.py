"""A session remembers its newest answers: a client that asks again after a broken connection does nothing twice."""

import asyncio
import gc
import weakref

import pytest

from openenv.core.env_server.answers_kept import IN_FLIGHT
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.declaration import declare
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.verbs import Answer
from openenv.core.errors import EnvironmentFault
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation, CountState

LARGE = 1 << 20


class Inline(CountingEnvironment):
    """In the event loop; says as much as it is asked for."""

    execution = "inline"

    def step(self, action, **kwargs):
        return super().step(action).model_copy(update={"payload": "x" * action.amount})


@pytest.fixture
async def session():
    declaration = declare(Inline, CountAction, CountObservation, CountState, None, None)
    opened = await Sessions(declaration, ServerConfig()).open()
    opened.ask_at_once("reset", {}, {}, "reset")
    return opened


def step(session, name, amount=0):
    return session.ask_at_once("step", {"amount": amount}, {}, name)


async def test_the_last_answers_are_given_again_and_much_older_ones_are_forgotten(session):
    given = {f"s{i}": step(session, f"s{i}") for i in range(5 * IN_FLIGHT)}
    done = session.num_steps
    newest = list(given)[-IN_FLIGHT:]
    assert all(step(session, name) is given[name] for name in newest)
    assert session.num_steps == done, "nothing was done twice"
    assert step(session, "s0") is not given["s0"]
    assert session.num_steps == done + 1


async def test_a_refusal_is_given_again_too(session):
    def ask():
        with pytest.raises(EnvironmentFault, match="not to my taste") as refused:
            session.ask_at_once("step", {"amount": 1, "mischief": "raise"}, {}, "refused")
        return refused.value

    assert ask() is ask()


async def test_of_large_answers_no_more_are_kept_than_a_client_may_ask_for_again(session):
    class NoArrays(list):
        """Those of an answer, which can be watched as the answer itself cannot."""

    kept = []

    def large(*_arguments):
        arrays = NoArrays()
        kept.append(weakref.ref(arrays))
        return Answer(b"x" * LARGE, arrays=arrays)

    session._host.verbs.call = large
    for i in range(4 * IN_FLIGHT + 7):
        step(session, f"s{i}")
    gc.collect()
    assert [answer() is not None for answer in kept[-IN_FLIGHT:]] == [True] * IN_FLIGHT
    assert sum(answer() is not None for answer in kept) <= IN_FLIGHT + 1


async def test_a_request_under_way_is_remembered_whatever_comes_meanwhile(session):
    go_on = asyncio.Event()

    async def slowly():
        await go_on.wait()
        return Answer(b"{}")

    first = asyncio.create_task(session.once("step slow", slowly))
    await asyncio.sleep(0)
    for i in range(5 * IN_FLIGHT):
        step(session, f"s{i}")
    assert step(session, "slow") is None, "who asks again has to wait for it"
    again = asyncio.create_task(session.once("step slow", slowly))
    await asyncio.sleep(0)
    go_on.set()
    assert await again is await first
