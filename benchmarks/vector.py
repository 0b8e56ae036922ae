"""256 games in one session, beside the published package's one session and OpenSpiel in this process: `python -m
benchmarks vector`."""

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


def rows(sides: Sides) -> list[Row]:
    """Each game against a single session of catch at the published server, and against a plain loop over its states."""
    shown: list[Row] = []
    with serving(sides, "published", "catch") as peer:
        for game in GAMES:
            with serving(sides, "ours", game) as one, serving(sides, "ours", game, "--workers", "2") as two:
                measured = sides.in_turns(
                    f"{NUM_ENVS} environments of {game}",
                    {
                        "one": partial(stepped, one, sides.seconds),
                        "two": partial(stepped, two, sides.seconds),
                        "raw": partial(in_process, game, sides.seconds),
                        "published": partial(play, sides, peer, "sync"),
                    },
                )
            raw, published = measured["raw"]["rate"], measured["published"]["rate"]
            for workers in ("one", "two"):
                ours = measured[workers]
                what = f"{game}, {NUM_ENVS} environments, {workers} worker{'s' * (workers == 'two')}"
                note = f"client CPU {ours['client_cpu_us']:.2f} us an environment's step"
                shown += [
                    Row(f"{what} / published session of catch", "/s", ours["rate"], published, 100, note),
                    Row(f"{what} / raw in this process", "/s", ours["rate"], raw, 0.6),
                ]
    return shown


def stepped(server: Served, seconds: float) -> Figures:
    """Random legal play through the server, in two halves: one is stepped while the other's actions are chosen."""
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
    """The same games, opponents and play without a server: a loop over OpenSpiel's states, with the agent's tensor."""
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
