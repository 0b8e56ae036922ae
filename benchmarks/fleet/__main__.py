"""A million sessions from the service times of one server: `python -m benchmarks.fleet`.

Measures what a request of a real environment costs the server and the client, simulates the queues of both, plays 1,000
real sessions beside the simulation of 1,000, and computes the fleet for many more. Writes a page with all of it.
"""

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from rich.console import Console

from benchmarks.fleet.queues import Costs, simulate
from benchmarks.fleet.sessions import SERVER, Load, play
from benchmarks.peers import resident_mb
from benchmarks.report import RESULTS, machine
from openenv.core.env_server import ServerConfig
from openenv.hosting.local_process import LocalServer

CALIBRATED, CALIBRATED_THINK_S = 500, 0.01
"""Sessions whose requests are measured: more than keep both ends working."""
CHECKED = 1000
CHECKED_THINK_S = (1.0, 0.2, 0.1, 0.03)
THINK_S = (0.1, 1.0, 10.0)
BUSY = 0.7
"""Share of the time in which a processor of the fleet works."""
HEADINGS = {
    "check": "think | client, server ran | requests/s | simulated | ratio | median ms | simulated | p99 ms | simulated",
    "fleet": "think | requests/s | servers | sessions of each | busy | median, p99 ms | cores | GiB | $ an hour",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one server and its clients cost."""

    costs: Costs
    empty_mib: float
    session_kib: float


def measured(seconds: float) -> Measured:
    """Measure costs with a server that does not poll its sockets, and the way of a request with default settings."""
    module, options = SERVER
    with LocalServer(module, options) as server:
        empty = resident_mb(server.pid)
        many = asyncio.run(play(server, Load(sessions=CHECKED, think_s=0.0, seconds=0.1)))
    with LocalServer(module, [*options, "--no-busy-poll"]) as server:
        loaded = asyncio.run(play(server, Load(sessions=CALIBRATED, think_s=CALIBRATED_THINK_S, seconds=seconds)))
    with LocalServer(module, options) as server:
        alone = asyncio.run(play(server, Load(sessions=1, think_s=0.0, seconds=seconds)))
    client_s, server_s = loaded.client_s / loaded.requests, loaded.server_s / loaded.requests
    mean = statistics.fmean(alone.latencies_s)
    way_s = max(0.0, statistics.median(alone.latencies_s) - client_s - server_s)
    spread = tuple(one / mean for one in alone.latencies_s)
    costs = Costs(client_s=client_s, server_s=server_s, way_s=way_s, spread=spread)
    return Measured(costs=costs, empty_mib=empty, session_kib=1024 * (many.server_mib - empty) / CHECKED)


def checked(costs: Costs, seconds: float) -> list[str]:
    """Rows of 1,000 real sessions beside simulated ones.

    The simulated processors are as slow as other programs made those of this machine meanwhile.
    """
    rows = []
    for think_s in CHECKED_THINK_S:
        module, options = SERVER
        with LocalServer(module, options) as server:
            real = asyncio.run(play(server, Load(sessions=CHECKED, think_s=think_s, seconds=seconds), seed=1))
        client_s, server_s = costs.client_s / real.client_share, costs.server_s / real.server_share
        slower = replace(costs, client_s=client_s, server_s=server_s)
        model = simulate(slower, CHECKED, think_s, seconds, one_client=True)
        cells = (
            f"{think_s:g} s",
            f"{real.client_share:.0%}, {real.server_share:.0%}",
            f"{real.rate:,.0f}",
            f"{model.rate:,.0f}",
            f"{model.rate / real.rate:.2f}",
            *(_ms(one.latencies_s, percent) for percent in (50, 99) for one in (real, model)),
        )
        rows.append(" | ".join(cells))
    return rows


def fleet(found: Measured, args: argparse.Namespace) -> list[str]:
    """Rows of the fleet for `args.sessions` sessions, by the time that a model takes for a reply."""
    rows, costs = [], found.costs
    for think_s in THINK_S:
        by_work = BUSY * (think_s + costs.client_s + costs.way_s) / costs.server_s
        each = min(int(by_work), ServerConfig().max_sessions)
        servers = ceil(args.sessions / each)
        one = simulate(costs, each, think_s, max(2.0, 4 * think_s), one_client=False)
        cores = ceil(servers * one.busy / BUSY)
        gib = servers * (found.empty_mib + each * found.session_kib / 1024) / 1024
        price = cores * args.core_price + gib * args.gib_price
        rows.append(
            f"{think_s:g} s | {servers * one.rate:,.0f} | {servers:,} | {each:,} | {one.busy:.0%} | "
            f"{_ms(one.latencies_s, 50)}, {_ms(one.latencies_s, 99)} | {cores:,} | {gib:,.0f} | {price:,.2f}"
        )
    return rows


def page(found: Measured, check: Sequence[str], rows: Sequence[str], args: argparse.Namespace) -> str:
    """The page in Markdown."""
    costs, on = found.costs, machine()
    return f"""# {args.sessions:,} sessions, from the service times of one server

On {on["processor"]}, {on["cores"]} cores, Python {on["python"]}.
The environment is catch of OpenSpiel, with a typed client.

## The model
A session thinks, sends a request, waits, and receives the response. The server is one processor with one queue, and so
is the process with all clients of the check; in the fleet each client has a processor when it needs one. Times of
thinking are exponential. A tenth of the requests are resets.

| measured | |
|---|---|
| server, processor time of a request | {1e6 * costs.server_s:.1f} us |
| client, processor time of a request | {1e6 * costs.client_s:.1f} us |
| kernel and waking up, of one session alone | {1e6 * costs.way_s:.1f} us |
| server without sessions | {found.empty_mib:.0f} MiB |
| a session | {found.session_kib:.0f} KiB |

The first two are of {CALIBRATED} sessions that think for {1e3 * CALIBRATED_THINK_S:g} ms, without busy polling. How
much single requests differ is what the latencies of one session alone differ by.

## The check: {CHECKED:,} real sessions of one server on this machine
{_table("check", check)}

The second column is the share of the time in which a side ran when it could, by the kernel's count: the rest was other
programs'. The simulated processors are slower by as much. On a quiet machine it is near 100 %.

## The fleet
A server is one process. It has as many sessions as keep it busy for {BUSY:.0%} of the time, and at most
{ServerConfig().max_sessions:,}, its default limit. Servers share cores, each of which is busy for {BUSY:.0%}. A core
costs ${args.core_price:g} an hour and a GiB ${args.gib_price:g}: assumptions, see `--core-price` and `--gib-price`.

{_table("fleet", rows)}

Not in the model: networks between machines, proxies, and environments whose steps take longer than those of catch.
"""


def _table(name: str, rows: Sequence[str]) -> str:
    headings = HEADINGS[name]
    return "\n".join([f"| {headings} |", "|---" * (headings.count("|") + 1) + "|", *(f"| {row} |" for row in rows)])


def _ms(times_s: Sequence[float], percent: int) -> str:
    return f"{1e3 * statistics.quantiles(times_s, n=100)[percent - 1]:.2f}"


def main() -> None:
    """Measure, simulate, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1_000_000, help="Of the fleet (default %(default)s).")
    parser.add_argument("--seconds", type=float, default=10.0, help="Of each measurement (default %(default)s).")
    parser.add_argument("--core-price", type=float, default=0.04, help="Of a core, an hour (default %(default)s).")
    parser.add_argument("--gib-price", type=float, default=0.005, help="Of a GiB, an hour (default %(default)s).")
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.md", help="The page (default %(default)s).")
    args = parser.parse_args()
    found = measured(args.seconds)
    text = page(found, checked(found.costs, args.seconds), fleet(found, args), args)
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(text, encoding="utf-8")
    Console().print(text, markup=False)
    Console().print(f"written: {args.out}", soft_wrap=True)


if __name__ == "__main__":
    main()
