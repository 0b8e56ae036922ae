"""What the pages cost: `python -m benchmarks.pages`.

How long Chromium takes to load the page at /web, and how many bytes that has; and how fast a client plays a session,
with and without a browser that watches it: at 200 steps a second, and without a pause. Rounds alternate. It exits with
1 above a limit.
"""

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.table import Table
from tests.browser import loaded_bytes

from benchmarks.report import machine
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.local_process import LocalServer

MODULE, OPTIONS = "openenv.envs.openspiel_env.server.app", ["--game", "tic_tac_toe", "--allow-watching"]
STEPS_PER_S = 200
LOAD_LIMIT_MS, BYTES_LIMIT, LEAST_SHARE = 200.0, 100_000, 0.95


def loads(browser: Browser, url: str, number: int) -> tuple[list[float], int]:
    """Milliseconds of loads with an empty cache, until all that the page needs is there; and the bytes of one."""
    times, sizes = [], []
    for _ in range(number):
        with browser.new_context() as context:
            page = context.new_page()
            sizes.append(loaded_bytes(page, f"{url}/web/"))
            times.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    return times, max(sizes)


def steps_per_s(env: OpenSpielEnv, seconds: float, pace: float | None) -> float:
    """Steps that a client takes in a second. pace: those that it tries to take; None: as many as it can."""
    result = env.reset(seed=0)
    began, num_steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        if pace is not None and num_steps > passed * pace:
            time.sleep(num_steps / pace - passed)
        if result.done:
            result = env.reset(seed=num_steps)
        else:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        num_steps += 1
    return num_steps / (time.perf_counter() - began)


@contextmanager
def watching(browser: Browser, url: str) -> Iterator[None]:
    """A browser that watches the newest session of the server."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{url}/web/watch")
        page.locator("#sessions button").first.click()
        page.locator("#num-steps:not(:empty)").wait_for()
        yield
        page.locator("#verbs tr").first.wait_for()


def rounds(browser: Browser, url: str, number: int, measure: Callable[[OpenSpielEnv], float]) -> dict[str, list[float]]:
    """The measure without and with a watcher, alternating."""
    measured: dict[str, list[float]] = {"alone": [], "watched": []}
    with OpenSpielEnv(url) as env:
        env.reset()
        for _ in range(number):
            measured["alone"].append(measure(env))
            with watching(browser, url):
                measured["watched"].append(measure(env))
    return measured


def main() -> None:
    """Measure, print the tables, and exit with code 1 above a limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="Rounds of each measure (default %(default)s).")
    parser.add_argument("--seconds", type=float, default=3.0, help="Seconds of a round (default %(default)s).")
    args = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("needs Debian's package chromium: apt-get install chromium")
    with LocalServer(MODULE, OPTIONS) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        times, size = loads(browser, server.base_url, args.rounds)
        paced = rounds(browser, server.base_url, args.rounds, lambda env: steps_per_s(env, args.seconds, STEPS_PER_S))
        free = rounds(browser, server.base_url, args.rounds, lambda env: steps_per_s(env, args.seconds, None))
        browser.close()
    load_ms = statistics.median(times)
    table = Table("what", "figure", "limit", title="Pages on {processor}, {cores} cores".format(**machine()))
    table.add_row("load of /web", f"{load_ms:.0f} ms", f"{LOAD_LIMIT_MS:g} ms")
    table.add_row("bytes of /web", f"{size:,}", f"{BYTES_LIMIT:,}")
    shares = {}
    for name, measured in ((f"{STEPS_PER_S} steps/s", paced), ("full speed", free)):
        alone, watched = (statistics.median(measured[side]) for side in ("alone", "watched"))
        shares[name] = watched / alone
        limit = f"{LEAST_SHARE:.0%}" if measured is paced else ""
        table.add_row(
            f"a client at {name}: alone, watched", f"{alone:,.0f}, {watched:,.0f} steps/s: {watched / alone:.1%}", limit
        )
    Console(width=120).print(table)
    is_met = load_ms <= LOAD_LIMIT_MS and size <= BYTES_LIMIT and shares[f"{STEPS_PER_S} steps/s"] >= LEAST_SHARE
    raise SystemExit(not is_met)


if __name__ == "__main__":
    main()
