"""256 environments in one session, beside one session of the published package: `python -m benchmarks vector`."""

import random
import time
from functools import partial
from typing import Any

import numpy as np
import pyspiel

from benchmarks.peers import Figures, Served, Sides, play, serving
from benchmarks.report import Row
from openenv.envs.openspiel_env import OpenSpielEnv

NUM_ENVS = 256
GAMES = ("catch", "tic_tac_toe")
FLOOR = 100


def rows(sides: Sides) -> list[Row]:
    """Measure each game with one worker and two, beside a typed, synchronous published session of catch."""
    shown: list[Row] = []
    with serving(sides, "published", "catch") as published:
        for game in GAMES:
            with serving(sides, "ours", game) as one, serving(sides, "ours", game, "--workers", "2") as two:
                measured = sides.in_turns(
                    f"{NUM_ENVS} environments of {game}",
                    {
                        "1 worker": partial(stepped, one, sides.seconds),
                        "published": partial(play, sides, published, "sync"),
                        "2 workers": partial(stepped, two, sides.seconds),
                        "in process": partial(in_process, game, sides.seconds),
                    },
                )
            shown += [_row_of(game, workers, measured) for workers in ("1 worker", "2 workers")]
    return shown


def _row_of(game: str, workers: str, measured: dict[str, Figures]) -> Row:
    ours, published, raw = measured[workers], measured["published"]["rate"], measured["in process"]["rate"]
    note = (
        f"{ours['rate'] / raw:.2f}x of a loop without a server ({raw:,.0f} /s); "
        f"client CPU {ours['client_cpu_us']:.2f} us a step; published: one session of catch"
    )
    return Row(f"{game}, inline, {NUM_ENVS} environments, {workers}", "/s", ours["rate"], published, FLOOR, note)


def stepped(server: Served, seconds: float) -> Figures:
    """Play random legal actions in two halves: the server steps one while the client chooses for the other."""
    envs = OpenSpielEnv(server.url).vector(NUM_ENVS, autoreset="same_step", num_sessions=2)
    rng = np.random.default_rng(0)

    def choose(legal: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.argmax(rng.random(legal.shape, dtype=np.float32) * legal, axis=1)

    observations, _ = envs.reset(seed=0)
    envs.send(choose(observations["legal_actions"]))
    steps, cpu = 0, -time.process_time()
    ended = time.perf_counter() + seconds
    while time.perf_counter() < ended:
        observations, _, _, _, infos = envs.recv()
        envs.send(choose(observations["legal_actions"]), infos["env_ids"])
        steps += len(infos["env_ids"])
    cpu += time.process_time()
    envs.close()
    return {"rate": steps / seconds, "client_cpu_us": 1e6 * cpu / steps}


def in_process(game_name: str, seconds: float) -> Figures:
    """Play the same games and opponents without a server, in a loop over OpenSpiel's states."""
    game, rng, agent = pyspiel.load_game(game_name), random.Random(0), 0

    def begin() -> Any:
        state = game.new_initial_state()
        while state.is_chance_node():
            actions, probabilities = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(rng.choices(actions, probabilities)[0])
        return state

    states, steps = [begin() for _ in range(NUM_ENVS)], 0
    ended = time.perf_counter() + seconds
    while time.perf_counter() < ended:
        for index, state in enumerate(states):
            state.apply_action(rng.choice(state.legal_actions()))
            while not state.is_terminal() and state.current_player() != agent:
                state.apply_action(rng.choice(state.legal_actions()))
            state.observation_tensor(agent)
            if state.is_terminal():
                state.returns()
                states[index] = begin()
        steps += NUM_ENVS
    return {"rate": steps / seconds}
