"""Snapshots of an episode: saved under a token and restored, or forked into sessions of their own."""

import pytest
from websockets.sync.client import connect

from openenv.core.env_server import create_app
from openenv.core.errors import NotSupported, SessionFault
from openenv.core.wire.constants import SUBPROTOCOL
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, ProcessEnvironment, SavingEnvironment
from tests.core.env_server.probes import num_sessions

pytestmark = pytest.mark.process


@pytest.mark.parametrize("environment", [SavingEnvironment, ProcessEnvironment])
def test_a_saved_episode_is_restored_with_its_random_numbers(serving, environment):
    with CountEnv(serving(create_app(environment))) as env:
        env.reset(seed=1)
        env.step(CountAction(amount=3))
        token = env.save()
        first = [env.step(CountAction(amount=1)).observation for _ in range(3)]
        env.restore(token)

        assert [env.step(CountAction(amount=1)).observation for _ in range(3)] == first


def test_saving_an_environment_without_save_state_names_the_method(serving):
    with CountEnv(serving(create_app(CountingEnvironment))) as env:
        env.reset()
        with pytest.raises(NotSupported, match="save_state"):
            env.save()


def test_a_token_that_the_server_did_not_give_is_refused(serving):
    with CountEnv(serving(create_app(SavingEnvironment))) as env:
        env.reset()
        with pytest.raises(SessionFault, match="Unknown snapshot token"):
            env.restore("made up")
        assert env.state().total == 0


def test_branches_go_their_own_ways_from_one_start(serving):
    with CountEnv(serving(create_app(SavingEnvironment))) as env:
        env.reset(seed=1, start=2)
        branches = env.fork(3)
        totals = [branch.step(CountAction(amount=n)).observation for n, branch in enumerate(branches)]

        assert [seen.total for seen in totals] == [2, 3, 4]
        assert len({seen.draw for seen in totals}) == 1
        assert env.state().total == 2
        for branch in branches:
            branch.close()


async def test_branches_of_an_asynchronous_client_are_asynchronous(serving):
    async with CountEnv(serving(create_app(SavingEnvironment))) as env:
        await env.reset(start=5)
        (branch,) = await env.fork(1)
        assert (await branch.state()).total == 5
        await branch.close()


def test_a_branch_that_was_closed_opens_a_new_session(serving):
    with CountEnv(serving(create_app(SavingEnvironment))) as env:
        env.reset(start=2)
        (branch,) = env.fork(1)
        assert branch.state().total == 2
        branch.close()
        assert branch.reset().observation.total == 0
        branch.close()


def test_a_repeated_fork_under_one_id_forks_once(serving):
    url = serving(create_app(SavingEnvironment))
    answers = []
    with connect(url.replace("http", "ws") + "/ws", subprotocols=[SUBPROTOCOL]) as socket:
        socket.recv()
        for message in ('{"type": "reset", "id": "a"}', *['{"type": "fork", "id": "b", "data": {"count": 2}}'] * 2):
            socket.send(message)
            answers.append(socket.recv())

        assert answers[1] == answers[2]
        assert num_sessions(url) == 3
