"""The same server through the Unix socket beside its port and through the port: `python -m benchmarks sockets`."""

from functools import partial

from benchmarks.peers import Sides, play, serving
from benchmarks.report import Row

PORT_ONLY = "127.0.0.2"
"""An address of this machine beside which there is no socket."""
WHAT = (
    ("echo", "sync", 1),
    ("echo", "async", 1),
    ("echo", "async", 32),
    ("catch", "sync", 1),
    ("catch", "async", 1),
    ("catch", "async", 32),
    ("echo", "open", 1),
    ("echo", "open_async", 1),
    ("pixels", "sync", 1),
)


def rows(sides: Sides) -> list[Row]:
    """Steps of small and large observations, and sessions."""
    shown: list[Row] = []
    for name, mode, sessions in WHAT:
        with serving(sides, "ours", name) as beside, serving(sides, "ours", name, host=PORT_ONLY) as port:
            turns = {
                "beside": partial(play, sides, beside, mode, sessions),
                "port": partial(play, sides, port, mode, sessions),
            }
            what = f"{name}, {mode}{f', {sessions} sessions' * (sessions > 1)}: Unix socket / port"
            measured = sides.in_turns(what, turns)
        ours, ports = measured["beside"], measured["port"]
        note = f"p50 {ours['p50_us']:.0f} / {ports['p50_us']:.0f} us"
        shown.append(Row(what, "/s", ours["rate"], ports["rate"], 1, note))
    return shown
