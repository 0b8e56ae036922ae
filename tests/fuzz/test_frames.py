"""Random frames over a WebSocket: the server answers each, reveals nothing, keeps no session and serves others."""

import asyncio
import random
import time

import httpx
import pytest

from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL, SUBPROTOCOL
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.local_process import LocalServer
from tests.fuzz.attack import Target, attack

pytestmark = pytest.mark.process

LIMITS = ["--reconnect-grace-s", "0.5", "--max-sessions", "256"]
CONNECTIONS = 12
TOGETHER = ("", "&autoreset=same_step", "&autoreset=disabled", "&autoreset=disabled&stacked=false")

RPC = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "hello", "arguments": {"a": 1}}},
    {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}},
    {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": "x"}},
]
VERBS = [
    {"type": "reset", "data": {"seed": 1, "episode_id": "e"}},
    {"type": "reset", "data": {}},
    {"type": "state"},
    {"type": "close"},
    *({"type": "mcp", "data": request} for request in RPC),
]
EXTENSIONS = [
    {"type": "save", "id": "s1"},
    {"type": "restore", "id": "r1", "data": {"token": "x"}},
    {"type": "fork", "id": "f1", "data": {"count": 1}},
    {"type": "state", "id": "1"},
]
ECHO = [{"type": "step", "data": {"message": "hello", "metadata": {}}}]
GAME = [{"type": "step", "data": {"action_id": action}} for action in range(9)]


def targets(steps):
    with_ids = [{**frame, "id": f"{n}", "timeout_s": 5} for n, frame in enumerate((*steps, *VERBS[:2]))]
    return [
        Target("/ws", [*steps, *steps, *VERBS]),
        Target("/ws", [*steps, *VERBS, *with_ids, *EXTENSIONS], SUBPROTOCOL),
        Target("/ws", [*steps, *VERBS, *with_ids], ARRAYS_SUBPROTOCOL),
        *(Target(f"/ws?num_envs=3{how}", together(steps), ARRAYS_SUBPROTOCOL) for how in TOGETHER),
        Target("/mcp", RPC),
    ]


def together(steps):
    """Steps of single environments as those of three, by column and by row."""
    actions = [frame["data"] for frame in steps]
    by_column = [{name: [value] * 3 for name, value in action.items()} for action in actions]
    return [
        {"type": "reset", "id": "r1", "data": {"resets": [{"seed": seed} for seed in range(3)]}},
        {"type": "reset", "id": "r2", "data": {"env_ids": [1], "resets": [{}]}},
        {"type": "state", "id": "s"},
        *({"type": "step", "id": f"c{n}", "data": {"actions": columns}} for n, columns in enumerate(by_column)),
        *({"type": "step", "id": f"l{n}", "data": {"actions": [action] * 3}} for n, action in enumerate(actions)),
        {"type": "step", "id": "e", "data": {"env_ids": [2, 0], "actions": actions[:1] * 2}},
    ]


def play_echo(url):
    with EchoEnv(url) as env:
        env.reset()
        assert env.step(EchoAction(message="hello")).reward == pytest.approx(0.5)


def play_game(url):
    with OpenSpielEnv(url) as env:
        result = env.reset(seed=1)
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        assert env.state().step_count >= 3


SERVED = {
    "echo": ("openenv.envs.echo_env.server.app", [], ECHO, play_echo),
    "tic_tac_toe": ("openenv.envs.openspiel_env.server.app", ["--game", "tic_tac_toe"], GAME, play_game),
    "tic_tac_toe in threads": (
        "openenv.envs.openspiel_env.server.app", ["--game", "tic_tac_toe", "--execution", "thread"], GAME, play_game,
    ),
    "echo in processes": ("openenv.envs.echo_env.server.app", ["--execution", "process"], ECHO, play_echo),
    "echo recorded": ("openenv.envs.echo_env.server.app", ["--record-dir", "recordings"], ECHO, play_echo),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVED)
def test_odd_frames_are_answered_and_leave_nothing_behind(name, capsys, tmp_path):
    _fuzz(name, seconds=1, seed=random.SystemRandom().getrandbits(32), capsys=capsys, tmp_path=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
def test_a_minute_of_odd_frames_is_answered_and_leaves_nothing_behind(name, capsys, tmp_path):
    _fuzz(name, seconds=12, seed=random.SystemRandom().getrandbits(32), capsys=capsys, tmp_path=tmp_path)


def _fuzz(name, seconds, seed, capsys, tmp_path):
    module, args, steps, play = SERVED[name]
    args = [str(tmp_path / arg) if arg == "recordings" else arg for arg in args]
    with LocalServer(module, [*args, *LIMITS]) as server:
        with capsys.disabled():
            print(f"\n{name}: seed {seed}")
        attacking = attack(server.base_url, targets(steps), seed=seed, seconds=seconds, connections=CONNECTIONS)
        try:
            counted = asyncio.run(attacking)
        except ExceptionGroup as failures:
            failures.add_note(f"output of the server: {server.output()}")
            raise
        with capsys.disabled():
            print(f"{name}: {dict(counted)}")

        play(server.base_url)
        assert counted["answers"] > 100
        assert all(counted[str(target)] for target in targets(steps)), counted
        assert sessions_left(server.base_url) == 0
        assert "Exception in ASGI" not in server.output()
        assert "unforeseen" not in server.output()


def sessions_left(url, within_s=5.0):
    """Sessions that are still open when their grace period is over."""
    deadline = time.monotonic() + within_s
    while (left := httpx.get(f"{url}/ready").json()["sessions"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
