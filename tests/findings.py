"""A table of what broke when strangers used the package, and of the tests that keep it from breaking again.

`make findings` loads this as a pytest plugin. A test names its row with `@pytest.mark.finding("H1")`; a row without a
test fails.
"""

from collections import defaultdict

import pytest
from rich.console import Console
from rich.table import Table

ROWS = {
    "A1": "an environment that declares no execution is served fast, and a step that blocks stops no other session",
    "A2": "busy polling stops where it does not pay, and can be turned off",
    "B1": "every public name of the published package exists here",
    "B2": "no factory is called before a session opens",
    "B3": "`openenv serve` serves classes, factories, applications and folders",
    "B4": "importing openenv.__main__ runs nothing, and errors have the published words that tests of users match",
    "H1": "an error after the step is that step's response, and nothing runs twice",
    "H2": "a connection that was taken over plays no more",
    "H3": "a client that sends without a pause leaves the others their turns",
    "H4": "heads without an end and half-open connections cost neither memory nor files for long",
    "H5": "an application's own dependencies guard the WebSocket routes",
    "M1": "an empty token is refused",
    "M2": "questions about tasks run in no client's environment",
    "M3": "the last observations of a vector are those of the episodes that ended",
    "M4": "a reward that is no finite number is a fault, not a zero",
    "M5": "refused requests cost little memory and short responses",
    "M6": "a client that leaves while its environment is made holds no slot",
    "M7": "a close() that raises or hangs harms its own session alone",
    "M8": "an environment that forks in its process never answers for another request",
    "M9": "an unforeseen error is answered in the published dialect too",
    "L1": "a foreign Host or a cross-site request is refused where there is no token",
    "L2": "no request can forge a log line",
    "L3": "an environment that uses signal.alarm leaves time limits in force",
    "L4": "the environments of one session are limited",
    "L5": "a session that ends closes its connection",
    "L6": "sessions opened over HTTP have an idle limit of their own",
    "L7": "an id that is used again with another body is refused",
    "L8": "fragments of a message cost no more than the message",
    "L9": "frames follow RFC 6455: text is UTF-8, close codes are valid, a closed connection is silent",
    "L10": "handshakes follow RFC 6455: HTTP/1.1, one Host, one key",
    "L11": "metadata that holds an array reference of its own is data",
    "L12": "a first frame that is no session is a ServerUnreachable, and no queue is waited in without end",
    "L13": "huge integers in a vector fail one environment alone, or nothing",
    "L14": "recordings and tokens are kept from others",
    "L15": "forwarded headers are not believed unless asked for",
    "L16": "every route takes the configuration that its middleware has",
    "L17": "threads and signal handlers of an environment do not keep a server from ending",
    "L18": "an Authorization header has the scheme Bearer, in any case",
    "WS": "the WebSocket conformance cases, at both ends",
    "R1": "a reply is read as people read it, and one that was cut off is counted",
    "R2": "a client knows its process and its event loop",
    "R3": "one failed call ends one episode, and an evaluation goes on where it stopped",
    "R4": "proxies, locales without UTF-8, and systems without what Linux alone has do no harm",
    "R5": "formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML",
    "N1": "an environment of any name is played to its end, and the fields of an action are an action",
    "N2": "a success is what the environment declares",
    "N3": "arrays work from the first line, or their author learns which type to write",
    "N4": "an environment of tools is checked by its tools",
    "N5": "a recording holds what its replay needs",
    "N6": "a run that cannot learn ends at once, and one that made no step has failed",
    "N7": "training needs no file, and printed commands run",
    "N8": "the tests of a new environment run as its README prints them",
    "N9": "a lost server and Ctrl-C have a line at once, with what is kept and how to go on",
    "N10": "a server has a first page, loads nothing from elsewhere, and names a used port first",
    "N11": "pages fit their window, name the game, and lead with what a person looks at",
    "N12": "the command line has a version and a doctor, and shows each default once",
    "N13": "what is not there or not read is an error with the next step",
    "N14": "remedies are true",
    "N15": "each environment of a file has its own messages",
    "N16": "TRL's rollouts warn when no reply names a legal action",
    "S1": "a second run of the same name leaves the first one alone",
    "S2": "the login page is limited in size and attempts",
    "S3": "no command line holds a secret",
    "S4": "very many wrong fields cost little",
    "S6": "deadlines hold while bytes arrive, and responses have a size",
    "S7": "a line feed alone ends a line",
    "S8": "one bad run folder harms no other",
    "S10": "limits of a sandbox hold for the session, also where no control group may be made",
    "S11": "a step of which most groups were lost is played again",
    "S12": "null is null: lost episodes and rewards that were not given",
    "S14": "a full disk is named with its path",
    "S17": "programs of an inline environment end with their server",
    "P1": "any order of requests, faults and cuts: each accepted action happened once, or the client knows it may not",
}
"""The rows of the table, in order."""

_outcomes: dict[str, list[str]] = defaultdict(list)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that name a row."""
    chosen = [item for item in items if item.get_closest_marker("finding") is not None]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    for item in chosen:
        rows = [row for marker in item.iter_markers("finding") for row in marker.args]
        item.user_properties += [("finding", row) for row in rows]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the outcome of each test, which its last phase that counts decides."""
    if report.when == "call" or not report.passed:
        for name, row in report.user_properties:
            if name == "finding":
                _outcomes[row].append(report.outcome)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when a row has no test that passed, or a test names a row that does not exist."""
    if session.config.option.collectonly:
        return
    if _outcomes.keys() - ROWS or any("passed" not in _outcomes[row] for row in ROWS):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary() -> None:
    """Print the table."""
    table = Table("row", "what holds", "tests", "outcome")
    for row in [*ROWS, *sorted(_outcomes.keys() - ROWS)]:
        outcomes = _outcomes[row]
        failed, passed = outcomes.count("failed"), outcomes.count("passed")
        verdict = f"[red]{failed} failed" if failed else "[green]holds" if passed else "[red]no test"
        table.add_row(row, ROWS.get(row, "[red]unknown row"), str(len(outcomes)), verdict)
    Console().print(table)
