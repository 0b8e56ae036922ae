"""Steps of one session, and of 32, beside the published package: `python -m benchmarks steps busy polling blocked`."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from benchmarks.environments import SHAPE
from benchmarks.peers import DEFAULT, ROOT, Figures, Served, Sides, busy_process, play, serving
from benchmarks.report import MATCH, Row
from openenv.core.generic_client import GenericEnvClient

GAMES = ("echo", "catch")
SCREENS_FLOOR = 20
BESIDE = ", beside a busy process"
POLLING_FLOOR, BLOCKED_FLOOR = 0.9, 0.8
"""As good as without, but for the noise of a busy machine."""
NO_OWN_FLOOR = "must only match the published package"


class Load(NamedTuple):
    """How the published side plays, and the floors for typed clients: with an inline environment, or a default one."""

    mode: str
    sessions: int
    floor: float
    default_floor: float
    """Of an environment as its author wrote it for the published package."""
    p99_floor: float | None = None
    default_p99_floor: float | None = None
    pool_floor: float | None = None

    def halved(self) -> "Load":
        """Return the load with half of its floors, and without a pool."""
        return Load(self.mode, self.sessions, self.floor / 2, MATCH, self.p99_floor and self.p99_floor / 2)


LOADS = (
    Load("sync", 1, floor=6, default_floor=5),
    Load("async", 1, floor=4, default_floor=3.5),
    Load("async", 32, floor=4, default_floor=4, p99_floor=2.5, default_p99_floor=2, pool_floor=12),
)


class Way(NamedTuple):
    """One way to play ours. The published side plays with the same kind of client."""

    execution: str
    """`inline` where the environment declares it, else `default execution`."""
    client: str
    """typed or dictionaries."""
    mode: str
    """sync, async or pool."""
    floor: float | None = MATCH
    p99_floor: float | None = None

    def label(self, game: str, sessions: int) -> str:
        """Return the row's name, such as `echo, inline, typed, sync, 1 session`."""
        load = f"{self.mode}, {sessions} session{'s' * (sessions > 1)}"
        if self.mode == "pool":
            load = f"SessionPool of {sessions}"
        return f"{game}, {self.execution}, {self.client}, {load}"


def rows(sides: Sides) -> list[Row]:
    """Measure typed clients with inline and default execution, pools, and dictionaries."""
    shown: list[Row] = []
    for game in GAMES:
        with ExitStack() as stack:
            ours = {
                execution: stack.enter_context(serving(sides, "ours", game, execution=execution))
                for execution in ("inline", DEFAULT)
            }
            published = stack.enter_context(serving(sides, "published", game))
            for load in LOADS:
                shown += _compare(sides, ours, published, load, _ways(load))
    return shown


def _ways(load: Load) -> list[Way]:
    """Return the ways to play a load. Only typed clients have floors of their own."""
    default = Way(DEFAULT, "typed", load.mode, load.default_floor, load.default_p99_floor)
    ways = [_typed_inline(load), default, Way("inline", "dictionaries", load.mode)]
    if load.pool_floor is not None:
        ways += [Way("inline", "typed", "pool", load.pool_floor), Way(DEFAULT, "typed", "pool")]
    return ways


def _typed_inline(load: Load) -> Way:
    return Way("inline", "typed", load.mode, load.floor, load.p99_floor)


def busy_rows(sides: Sides) -> list[Row]:
    """Measure typed clients and inline environments while another process keeps one core busy: half of the floors."""
    shown: list[Row] = []
    for game in GAMES:
        with serving(sides, "ours", game) as ours, serving(sides, "published", game) as published, busy_process():
            for load in map(Load.halved, LOADS):
                shown += _compare(sides, {"inline": ours}, published, load, [_typed_inline(load)], BESIDE)
    return shown


def polling_rows(sides: Sides) -> list[Row]:
    """Measure what busy polling costs while two processes keep both cores busy, beside the same without it."""
    shown: list[Row] = []
    for execution in ("inline", DEFAULT):
        with ExitStack() as stack:
            servers = {
                polls: stack.enter_context(serving(sides, "ours", "echo", execution=execution, polls=polls))
                for polls in (True, False)
            }
            for _ in range(2):
                stack.enter_context(busy_process())
            for load in LOADS:
                what = f"echo, {execution}, typed, {load.mode}, {load.sessions}: polling beside not polling"
                turns = {
                    str(polls): partial(play, sides, server, load.mode, load.sessions, polls=polls)
                    for polls, server in servers.items()
                }
                on, off = sides.in_turns(what, turns).values()
                shown.append(Row(what, "/s", on["rate"], off["rate"], POLLING_FLOOR, latencies(on, off)))
    return shown


def blocked_rows(sides: Sides) -> list[Row]:
    """Measure 32 sessions while another one's steps sleep for 2 s, beside the same without it."""
    with serving(sides, "ours", "sleep", execution=DEFAULT) as sleepy:
        server = replace(sleepy, name="echo")  # its clients are those of echo
        turns = {
            "beside": partial(_beside_a_step_that_sleeps, sides, server),
            "alone": partial(play, sides, server, "async", 32),
        }
        play(sides, server, "sync", 1)  # the environments share a thread from now on
        beside, alone = sides.in_turns("32 sessions, another one's step sleeps", turns).values()
    what = "echo, 32 sessions, beside a step that sleeps 2 s and alone: p99"
    return [Row(what, "us", beside["p99_us"], alone["p99_us"], BLOCKED_FLOOR, latencies(beside, alone))]


def _beside_a_step_that_sleeps(sides: Sides, server: Served) -> Figures:
    with GenericEnvClient(server.url).sync() as env, ThreadPoolExecutor(1) as thread:
        env.reset()
        step = thread.submit(env.step, {"message": "sleep"})
        figures = play(sides, server, "async", 32)
        step.result()
    return figures


def screen_rows(sides: Sides) -> list[Row]:
    """Measure a session whose every observation is a screen: raw bytes of ours, beside the published JSON."""
    with serving(sides, "ours", "pixels") as ours, serving(sides, "published", "pixels") as published:
        turns = {server.side: partial(play, sides, server, "sync") for server in (ours, published)}
        measured = sides.in_turns("screens", turns)
    figures = measured["ours"], measured["published"]
    what = f"screens of {'x'.join(map(str, SHAPE))} bytes, inline, typed, sync, 1 session"
    rates = [side["rate"] for side in figures]
    return [Row(what, "/s", *rates, SCREENS_FLOOR, latencies(*figures))]


def bare(sides: Sides, what: int | str) -> Figures:
    """Return one turn of a bare client and a bare server. what: the number of sessions, or `open`."""
    command = [sys.executable, "-m", "benchmarks.players.floor", str(min(sides.seconds, 1.0)), str(what)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    figures: Figures = json.loads(done.stdout)
    return figures


def _compare(
    sides: Sides, ours: dict[str, Served], published: Served, load: Load, ways: Sequence[Way], suffix: str = ""
) -> Iterator[Row]:
    """Measure all ways in turns, beside each kind of client of the published side.

    ours: our server of each execution. suffix: of the rows' names.
    """
    game, sessions = published.name, load.sessions
    measures: dict[str, Callable[[], Figures]] = {}
    for way in ways:
        server = ours[way.execution]
        measures[way.label(game, sessions)] = partial(play, sides, server, way.mode, sessions, way.client)
        measures.setdefault(way.client, partial(play, sides, published, load.mode, sessions, way.client))
    measures["bare"] = partial(bare, sides, sessions)
    measured = sides.in_turns(f"{game}, {load.mode}, {sessions}{suffix}", measures)
    for way in ways:
        label = way.label(game, sessions)
        figures = measured[label], measured[way.client]
        yield from _rows_of(label + suffix, way, sessions, *figures, measured["bare"])


def _rows_of(name: str, way: Way, sessions: int, ours: Figures, published: Figures, bare: Figures) -> Iterator[Row]:
    notes = [latencies(ours, published)]
    if sessions == 1:
        costs = (f"{side['client_cpu_us'] + side['server_cpu_us']:.0f}" for side in (ours, published))
        notes.append(f"CPU a step {' / '.join(costs)} us")
    if way.mode == "sync" or sessions > 1:
        notes.append(f"bare sockets {bare['rate']:,.0f} /s")
    if way.floor == MATCH:
        notes.append(NO_OWN_FLOOR)
    yield Row(name, "/s", ours["rate"], published["rate"], way.floor, "; ".join(notes))
    if way.p99_floor is not None:
        least = f"bare sockets {bare['p99_us']:,.0f} us"
        yield Row(f"{name}: p99", "us", ours["p99_us"], published["p99_us"], way.p99_floor, least)


def latencies(ours: Figures, published: Figures) -> str:
    """Return the note about p50 and p99: ours / published."""
    p50, p99 = (f"{ours[key]:,.0f} / {published[key]:,.0f} us" for key in ("p50_us", "p99_us"))
    return f"p50 {p50}, p99 {p99}"
