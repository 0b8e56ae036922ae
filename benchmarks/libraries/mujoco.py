"""64 environments in one session beside Gymnasium's own vector: `python -m benchmarks.libraries.mujoco`.

Gymnasium's `SyncVectorEnv` steps the same environments in the client's process, with the same actions. Turns alternate.
"""

import argparse
import time
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.peers import Figures, Served, Sides, cpu_s, serving
from benchmarks.report import machine
from openenv.envs.gymnasium_env import GymnasiumEnv

NUM_ENVS = 64
FLOOR = 0.7
"""The least share of the bare library's steps."""
_ACTIONS = 100


def played(envs: Any, seconds: float, server: Served | None = None) -> Figures:
    """Step with random actions; steps per second of all environments, and processor time of a step at both ends."""
    shape = (_ACTIONS, NUM_ENVS, *envs.single_action_space.shape)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, shape).astype(np.float32)
    envs.reset(seed=0)
    steps, client, served = 0, -time.process_time(), -cpu_s(server.pid) if server else 0.0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        envs.step(actions[steps % _ACTIONS])
        steps += 1
    rate = NUM_ENVS * steps / (time.perf_counter() - began)
    client += time.process_time()
    served += cpu_s(server.pid) if server else 0.0
    per_step = 1e6 / (NUM_ENVS * steps)
    return {"rate": rate, "client_us": client * per_step, "server_us": served * per_step}


def measure(env_id: str, sides: Sides) -> dict[str, Figures]:
    """The medians of both sides."""
    bare = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(env_id, disable_env_checker=True)] * NUM_ENVS)
    with (
        serving(sides, "ours", "gymnasium") as server,
        GymnasiumEnv(server.url).vector(NUM_ENVS, options={"env_id": env_id}) as envs,
    ):
        measures = {
            "a vector session": partial(played, envs, sides.seconds, server),
            "SyncVectorEnv": partial(played, bare, sides.seconds),
        }
        return sides.in_turns(f"{NUM_ENVS} environments of {env_id}", measures)


def main() -> None:
    """Measure each environment and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env_ids", nargs="*", default=["HalfCheetah-v5"], help="Gymnasium's ids (default %(default)s).")
    parser.add_argument("--rounds", type=int, default=5, help="Turns of each side; medians are shown (default 5).")
    parser.add_argument("--seconds", type=float, default=3.0, help="Seconds of one turn (default 3).")
    args = parser.parse_args()
    shown = Table("what", title=f"{NUM_ENVS} environments, on {machine()['processor']}, {machine()['cores']} cores")
    for heading in ("steps /s", "of SyncVectorEnv", "wanted", "client CPU us", "server CPU us"):
        shown.add_column(heading, justify="right")
    for env_id in args.env_ids:
        figures = measure(env_id, Sides("", args.rounds, args.seconds))
        bare = figures["SyncVectorEnv"]["rate"]
        for name, one in figures.items():
            ratio = one["rate"] / bare
            wanted = f"{FLOOR:.0%}" if name != "SyncVectorEnv" else ""
            cpu = (f"{one['client_us']:.1f}", f"{one['server_us']:.1f}")
            shown.add_row(f"{env_id}, {name}", f"{one['rate']:,.0f}", f"{ratio:.0%}", wanted, *cpu)
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
