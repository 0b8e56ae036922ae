"""A table of what broke when strangers used the package, and of the tests that keep it from breaking again.

`make findings` loads this as a pytest plugin. A test names its row, a sentence, with `@pytest.mark.finding`; a row
without a test fails. `--finding ROW` runs the tests of one row alone.
"""

from collections import defaultdict

import pytest
from rich.console import Console
from rich.table import Table

ROWS = (
    "a step that blocks stops no other session, and an undeclared execution is fast",
    "busy polling stops where it does not pay, and can be turned off",
    "every public name of the published package exists here",
    "no factory is called before a session opens",
    "`openenv serve` serves classes, factories, applications and folders",
    "importing openenv.__main__ runs nothing, and errors have the published words",
    "an error after the step is that step's response, and nothing runs twice",
    "a connection that was taken over plays no more",
    "a client that sends without a pause leaves the others their turns",
    "heads without an end and half-open connections cost neither memory nor files for long",
    "an application's own dependencies guard the WebSocket routes",
    "an empty token is refused",
    "questions about tasks run in no client's environment",
    "the last observations of a vector are those of the episodes that ended",
    "a reward that is no finite number is a fault, not a zero",
    "refused requests cost little memory and short responses",
    "a client that leaves while its environment is made holds no slot",
    "a close() that raises or hangs harms its own session alone",
    "an environment that forks in its process never answers for another request",
    "an unforeseen error is answered in the published dialect too",
    "a foreign Host or a cross-site request is refused where there is no token",
    "no request can forge a log line",
    "an environment that uses signal.alarm leaves time limits in force",
    "the environments of one session are limited",
    "a session that ends closes its connection",
    "sessions opened over HTTP have an idle limit of their own",
    "an id that is used again with another body is refused",
    "fragments of a message cost no more than the message",
    "frames follow RFC 6455",
    "handshakes follow RFC 6455: HTTP/1.1, one Host, one key",
    "metadata that holds an array reference of its own is data",
    "a first frame that is no session is a ServerUnreachable, and no queue is endless",
    "huge integers in a vector fail one environment alone, or nothing",
    "recordings and tokens are kept from others",
    "forwarded headers are not believed unless asked for",
    "every route takes the configuration that its middleware has",
    "threads and signal handlers of an environment do not keep a server from ending",
    "an Authorization header has the scheme Bearer, in any case",
    "the WebSocket conformance cases, at both ends",
    "a reply is read as people read it, and one that was cut off is counted",
    "a client knows its process and its event loop",
    "one failed call ends one episode, and an evaluation goes on where it stopped",
    "proxies, other locales and systems without what Linux alone has do no harm",
    "formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML",
    "an environment of any name is played to its end, and the fields of an action are an action",
    "a success is what the environment declares",
    "arrays work from the first line, or their author learns which type to write",
    "an environment of tools is checked by its tools",
    "a recording holds what its replay needs",
    "a run that cannot learn ends at once, and one that made no step has failed",
    "training needs no file, and printed commands run",
    "the tests of a new environment run as its README prints them",
    "a lost server and Ctrl-C have a line at once, with how to go on",
    "a server has a first page, loads nothing from elsewhere, and names a used port",
    "pages fit their window, name the game, and lead with what a person looks at",
    "the command line has a version and a doctor, and shows each default once",
    "what is not there or not read is an error with the next step",
    "remedies are true",
    "each environment of a file has its own messages",
    "TRL's rollouts warn when no reply names a legal action",
    "a second run of the same name leaves the first one alone",
    "the login page is limited in size and attempts",
    "no command line holds a secret",
    "very many wrong fields cost little",
    "deadlines hold while bytes arrive, and responses have a size",
    "a line feed alone ends a line",
    "one bad run folder harms no other",
    "limits of a sandbox hold for the session, also without a control group",
    "a step of which most groups were lost is played again",
    "null is null: lost episodes and rewards that were not given",
    "a full disk is named with its path",
    "programs of an inline environment end with their server",
    "each accepted action happened once, or the client knows that it may not have",
)
"""The rows of the table, in order."""

_outcomes: dict[str, list[str]] = defaultdict(list)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for one row."""
    parser.addoption("--finding", metavar="ROW", help="run the tests of this row alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that name a row."""
    wanted, chosen = _rows(config), []
    for item in items:
        rows = [row for marker in item.iter_markers("finding") for row in marker.args]
        item.user_properties += [("finding", row) for row in rows]
        if any(row in wanted or row not in ROWS for row in rows):
            chosen.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def _rows(config: pytest.Config) -> tuple[str, ...]:
    """The rows that are wanted."""
    one: str | None = config.option.finding
    return ROWS if one is None else (one,)


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
    rows = _rows(session.config)
    if _outcomes.keys() - set(ROWS) or any("passed" not in _outcomes[row] for row in rows):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print the table."""
    table = Table("what holds", "tests", "outcome")
    for row in [*_rows(config), *sorted(_outcomes.keys() - set(ROWS))]:
        outcomes = _outcomes[row]
        failed, passed = outcomes.count("failed"), outcomes.count("passed")
        verdict = f"[red]{failed} failed" if failed else "[green]holds" if passed else "[red]no test"
        table.add_row(row if row in ROWS else f"[red]unknown row: {row}", str(len(outcomes)), verdict)
    Console().print(table)
