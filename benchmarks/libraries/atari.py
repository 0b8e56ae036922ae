"""Pong in a vector session, beside ALE's own vector in this process: `python -m benchmarks.libraries.atari`.

It needs the extra `atari`. Both sides take turns; medians are shown. ALE's vector steps its games in a thread for each
core, so a client and a server have no core of their own.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import ale_py.env
import numpy as np
from ale_py.vector_env import AtariVectorEnv

from benchmarks.peers import ROOT, Figures, Served, Sides, cpu_s
from benchmarks.report import Row, show
from openenv.envs.atari_env import AtariAction, AtariEnv
from openenv.hosting.server_process import free_port, wait_until_healthy

NUM_ENVS = 16
NUM_ACTIONS = 6
FLOOR = 0.8
"""Of ALE's own vector. A session of one environment has no floor."""
_RAW = {
    "img_height": 210, "img_width": 160, "stack_num": 1, "maxpool": False, "noop_max": 0, "use_fire_reset": False,
    "reward_clipping": False,
}  # fmt: skip
"""Frames and rewards as the game has them: what a vector session plays by default."""
_DQN = {
    "img_height": 84, "img_width": 84, "stack_num": 4, "maxpool": True, "noop_max": 30, "use_fire_reset": True,
    "reward_clipping": True,
}  # fmt: skip
"""ALE's defaults: the newest four frames, small and grey."""
KINDS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "84x84x4, grey": ("grayscale", _DQN),
    "210x160, grey": ("grayscale", _RAW),
    "210x160x3": ("rgb", _RAW),
}


Measure = Callable[[float], Figures]
"""Steps for so many seconds. Loading sixteen games takes a second or two, so each side is opened once."""


def rows(sides: Sides) -> list[Row]:
    """Measure each kind of frames in a vector session, and one environment in a session of its own."""
    shown: list[Row] = []
    with _served() as server:
        for name, (obs_type, options) in KINDS.items():
            what = f"Pong, {NUM_ENVS} environments, {name}"
            own = own_vector(obs_type, options)
            with (
                vector_session(server, obs_type, options, 1) as one,
                vector_session(server, obs_type, options, 2) as two,
            ):
                measured = _in_turns(sides, what, {"ALE": own, "one session": one, "two sessions": two})
            shown += [
                _row(f"{what}, {sessions}", measured[sessions], measured["ALE"], FLOOR)
                for sessions in ("one session", "two sessions")
            ]
        for obs_type in ("ram", "rgb"):
            what = f"Pong, 1 environment, {obs_type}"
            with single_session(server, obs_type) as ours:
                measured = _in_turns(sides, what, {"ALE": own_environment(obs_type), "ours": ours})
            shown.append(_row(what, measured["ours"], measured["ALE"], None))
    return shown


def _in_turns(sides: Sides, what: str, measures: Mapping[str, Measure]) -> dict[str, Figures]:
    return sides.in_turns(what, {name: partial(measure, sides.seconds) for name, measure in measures.items()})


def _row(what: str, ours: Figures, own: Figures, floor: float | None) -> Row:
    note = (
        f"published: ALE alone in one process; {ours['cpu_us']:.0f} us of a processor a step, ALE {own['cpu_us']:.0f}"
    )
    return Row(what, "/s", ours["rate"], own["rate"], floor, note)


@contextmanager
def _served() -> Iterator[Served]:
    """A server of Atari games."""
    port = free_port()
    command = [sys.executable, "-m", "openenv.envs.atari_env.server.app", "--port", str(port)]
    began = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process, timeout_s=60)
        yield Served("ours", "atari", url, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait(10)


def _rate(step: Callable[[], int], pid: int | None, seconds: float) -> Figures:
    """Steps of environments per second, and processor time of a step. step: returns how many it has made. pid: of the
    server; None: there is none."""
    steps, cpu = 0, -_cpu_s(pid)
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        steps += step()
    return {"rate": steps / (time.perf_counter() - began), "cpu_us": 1e6 * (cpu + _cpu_s(pid)) / steps}


def _cpu_s(pid: int | None) -> float:
    """Processor seconds of this process and the server."""
    return time.process_time() + (0.0 if pid is None else cpu_s(pid))


def own_vector(obs_type: str, options: Mapping[str, Any]) -> Measure:
    """ALE's own vector, stepped at random."""
    grayscale = obs_type == "grayscale"
    envs = AtariVectorEnv("pong", NUM_ENVS, repeat_action_probability=0.25, grayscale=grayscale, **options)
    rng = np.random.default_rng(0)
    envs.reset(seed=0)

    def step() -> int:
        envs.step(rng.integers(0, NUM_ACTIONS, NUM_ENVS))
        return NUM_ENVS

    return partial(_rate, step, None)


@contextmanager
def vector_session(server: Served, obs_type: str, options: Mapping[str, Any], num_sessions: int) -> Iterator[Measure]:
    """A vector session, stepped at random; of two sessions, one is stepped while the client receives the other."""
    envs = AtariEnv(server.url).vector(
        NUM_ENVS, num_sessions=num_sessions, options={"obs_type": obs_type, "vector_options": dict(options)}
    )
    rng, share = np.random.default_rng(0), NUM_ENVS // num_sessions

    def step() -> int:
        infos = envs.recv()[4]
        envs.send(rng.integers(0, NUM_ACTIONS, share), infos.get("env_ids"))
        return share

    def measure(seconds: float) -> Figures:
        envs.send(rng.integers(0, NUM_ACTIONS, NUM_ENVS))
        figures = _rate(step, server.pid, seconds)
        for _ in range(num_sessions):
            envs.recv()
        return figures

    with envs:
        yield measure


def own_environment(obs_type: Any) -> Measure:
    """ALE's environment of Gymnasium, stepped at random from one episode to the next."""
    env = ale_py.env.AtariEnv("pong", obs_type=obs_type)
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def step() -> int:
        _, _, terminated, truncated, _ = env.step(rng.integers(NUM_ACTIONS))
        if terminated or truncated:
            env.reset()
        return 1

    return partial(_rate, step, None)


@contextmanager
def single_session(server: Served, obs_type: str) -> Iterator[Measure]:
    """A session of one environment, stepped at random from one episode to the next."""
    rng = np.random.default_rng(0)
    with AtariEnv(server.url) as env:
        env.reset(seed=0, obs_type=obs_type)

        def step() -> int:
            if env.step(AtariAction(action_id=int(rng.integers(NUM_ACTIONS)))).done:
                env.reset(obs_type=obs_type)
            return 1

        yield partial(_rate, step, server.pid)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="Turns of each side; medians are shown (default 5).")
    parser.add_argument("--seconds", type=float, default=2.0, help="Seconds of one turn (default 2).")
    args = parser.parse_args()
    show("Atari beside ALE", rows(Sides("", args.rounds, args.seconds)))


if __name__ == "__main__":
    main()
