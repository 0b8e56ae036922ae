"""Screens of 210x160x3 bytes, beside the published package's JSON: `python -m benchmarks frames`."""

from functools import partial

from benchmarks.peers import Sides, play, serving
from benchmarks.pixels import SHAPE
from benchmarks.report import Row


def rows(sides: Sides) -> list[Row]:
    """One session whose every observation is a screen, with the synchronous client."""
    with serving(sides, "ours", "pixels") as ours, serving(sides, "published", "pixels") as theirs:
        turns = {server.side: partial(play, sides, server, "sync") for server in (ours, theirs)}
        measured = sides.in_turns("screens", turns)
    mine, peers = measured["ours"], measured["published"]
    note = f"p50 {mine['p50_us']:.0f} / {peers['p50_us']:.0f} us, p99 {mine['p99_us']:.0f} / {peers['p99_us']:.0f} us"
    return [Row(f"a screen of {'x'.join(map(str, SHAPE))} bytes", "/s", mine["rate"], peers["rate"], 20, note)]
