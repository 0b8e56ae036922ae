"""Each check finds the fault that it is for, and no other check takes it for its own."""

import asyncio
import time

import pytest
from starlette.responses import PlainTextResponse

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.generic_client import GenericEnvClient
from openenv.evaluation.quality import CHECKS, check_environment, check_url
from openenv.evaluation.quality.checks import outcomes
from openenv.evaluation.quality.checks.determinism import other_seeds, same_seed_elsewhere
from openenv.evaluation.quality.probe.raw_client import ServerAddress
from openenv.evaluation.quality.target import Target
from openenv.hosting.local_process import LocalServer
from tests.core.env_server.probes import is_running
from tests.evaluation.quality import sound_env
from tests.evaluation.quality.sound_env import Hangs, SoundEnvironment

pytestmark = pytest.mark.process

_SECONDS = 600.0
"""Far more than the checks take: what they find is not to hang on how busy the machine is."""


def with_status(rows, *statuses):
    return {row.check: row.result.seen for row in rows if row.result.status in statuses}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of one of the environments of `sound_env`."""

    def make(name):
        monkeypatch.setenv("SOUND_ENV", name)
        (tmp_path / "openenv.yaml").write_text("name: sound\nserver: tests.evaluation.quality.sound_env\n")
        return tmp_path

    return make


def test_a_sound_environment_passes_every_check(folder):
    rows = check_environment(str(folder("SoundEnvironment")), seconds=_SECONDS)

    assert [row.check for row in rows] == [check.name for check in CHECKS]
    assert with_status(rows, "warn", "fail", "skip") == {}


async def test_an_environment_is_checked_in_a_notebooks_cell_where_an_event_loop_runs(folder):
    rows = check_environment(str(folder("SoundEnvironment")), seconds=_SECONDS, level="runtime")
    rows += check_url("http://127.0.0.1:9", seconds=5)

    assert rows[0].result.status == "pass"
    assert rows[-1].result.status == "skip"


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("RefusesEverything", "actions", "each of 20 actions made from the action's schema was refused"),
        ("ForgetsItsId", "verbs", "state.episode_id is None"),
        ("CountsNothing", "verbs", "step_count is 0 after 5 steps"),
        (
            "RaisesInItsState",
            "verbs",
            "state() raised AttributeError: 'RaisesInItsState' object has no attribute 'board'",
        ),
        ("RaisesInItsStateAtTheEnd", "ending", "`state` after it: EXECUTION_ERROR state() raised RuntimeError: over"),
        ("HasStateAsAMethod", "verbs", "state of HasStateAsAMethod is of type method: write @property above it"),
        ("HasStateAsADict", "verbs", "state of HasStateAsADict is of type dict: return a State"),
        ("SaysSomethingElse", "schema", "position: 'at "),
        ("TellsTracebacks", "errors", "1 MiB of text: the client receives a traceback"),
        ("DrawsUnseeded", "same seed", "in two new sessions: "),
        ("SeedsOnce", "same seed, used session", "in a used session: "),
        ("SharesItsPlace", "isolation", "two interleaved sessions: step 1: observation.position was"),
        ("SavesNoRandomNumbers", "snapshots", "after restore: step 4: observation."),
    ],
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_fault_turns_its_own_row_red_and_no_other(serving, name, check, words):
    rows = check_url(serving(create_app(getattr(sound_env, name))), seconds=_SECONDS)
    red = with_status(rows, "fail")

    assert list(red) == [check], red
    assert words in red[check]


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("HashesStrings", "same seed, other process", "in another process: "),
        ("LeaksFiles", "leaks", " file descriptors left"),
        ("ExitsAfterTheEnd", "ending", "then the server was gone"),
        ("ExitsOnLongNotes", "errors", "closed the connection"),
    ],
)
def test_a_fault_of_the_process_turns_its_own_row_red_and_no_other(folder, name, check, words):
    red = with_status(check_environment(str(folder(name)), seconds=_SECONDS), "fail")

    assert list(red) == [check], red
    assert words in red[check]


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("PaysForNothing", "rewards", "a policy that does nothing scores +6.000"),
        ("PaysTheSame", "rewards", "every reward is 1.0"),
        ("NeverEnds", "ending", "no end in 20 random steps"),
    ],
)
def test_what_is_allowed_and_hardly_meant_is_a_warning(serving, monkeypatch, name, check, words):
    monkeypatch.setattr(outcomes, "MAX_STEPS", 20)  # the bound is met in steps, however slow the machine
    rows = check_url(serving(create_app(getattr(sound_env, name))), seconds=_SECONDS)

    assert words in with_status(rows, "warn")[check]
    assert with_status(rows, "fail") == {}


def test_an_environment_that_hangs_is_reported_within_the_time_given(serving):
    url = serving(create_app(Hangs, config=ServerConfig(step_timeout_s=4.0)))
    began = time.monotonic()
    rows = check_url(url, seconds=24)

    assert with_status(rows, "fail") == {"actions": "no response to `step` within 2 s"}
    assert time.monotonic() - began < 24


def test_sessions_that_stay_open_are_a_leak(serving):
    async def never_end(session):
        """What a server that forgets to end sessions does."""

    app = create_app(SoundEnvironment)
    app.state.sessions.end = never_end
    red = with_status(check_url(serving(app), seconds=_SECONDS), "fail")

    assert red == {"leaks": "16 sessions opened and closed: 16 sessions left"}


class HidesTheReasonWhenFull:
    """ASGI middleware that swallows the reason for which a connection is closed."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def send_all_but_the_reason(message):
            if "CAPACITY_REACHED" not in (message.get("text") or ""):
                await send(message)

        await self.app(scope, receive, send_all_but_the_reason)


def test_a_full_server_that_closes_without_a_reason_fails_the_concurrency_check(serving):
    app = create_app(SoundEnvironment, config=ServerConfig(max_sessions=3))
    app.add_middleware(HidesTheReasonWhenFull)
    red = with_status(check_url(serving(app), seconds=_SECONDS), "fail")

    assert list(red) == ["concurrency"]
    assert "closed the connection" in red["concurrency"]


def test_a_server_of_one_session_gets_a_warning_and_no_failure(serving):
    rows = check_url(serving(create_app(SoundEnvironment, config=ServerConfig(max_sessions=1))))

    assert with_status(rows, "fail") == {}
    assert "the others were refused because the server is full" in with_status(rows, "warn")["concurrency"]
    assert "the server holds one session" in with_status(rows, "skip")["isolation"]


class PublishedDialect:
    """ASGI middleware that leaves what a published server has: no extended dialect, no /ready, no /metrics."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["path"] in ("/ready", "/metrics"):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        if scope["type"] == "websocket":
            scope = {**scope, "subprotocols": []}
        await self.app(scope, receive, send)


@pytest.mark.finding("remedies are true")
async def test_equal_episodes_of_different_seeds_may_have_randomness_that_random_play_does_not_see(serving):
    url = serving(create_app(sound_env.DrawsAfterANote))
    with GenericEnvClient(url) as env:
        winds = set()
        for seed in range(8):
            env.reset(seed=seed)
            winds.add(str([env.step({"move": "left", "note": "another wind"}).observation["wind"] for _ in range(4)]))
    target = Target(address=ServerAddress(base_url=url, timeout_s=60.0, headers={}), seed=0)
    async with target.http() as http:
        target.schemas = (await http.get("/schema")).json()

    found = await other_seeds(target)

    assert len(winds) > 1
    assert found.status == "pass"
    assert "give the same episode of random play" in found.seen
    assert "or random play sees none" in found.seen


async def test_a_check_that_runs_out_of_time_while_its_server_starts_leaves_none(serving):
    class CancelsItsOwner(LocalServer):
        """Ends the check at the moment when the server has been started and is not ready."""

        def start(self, *args, **kwargs):
            base_url = super().start(*args, **kwargs)
            self.started_pid = self.pid
            loop.call_soon_threadsafe(check.cancel)
            return base_url

    loop, server = asyncio.get_running_loop(), CancelsItsOwner("openenv.envs.echo_env.server.app")
    address = ServerAddress(base_url=serving(create_app(SoundEnvironment)), timeout_s=60.0, headers={})
    target = Target(address=address, seed=0, start_another=lambda: server)
    async with target.http() as http:
        target.schemas = (await http.get("/schema")).json()
    check = asyncio.ensure_future(same_seed_elsewhere(target))
    with pytest.raises(asyncio.CancelledError):
        await check

    assert not is_running(server.started_pid)


def test_rows_that_cannot_apply_to_a_published_server_are_skipped_with_the_reason(serving):
    app = create_app(SoundEnvironment)
    app.add_middleware(PublishedDialect)
    rows = check_url(serving(app), seconds=_SECONDS)

    assert with_status(rows, "fail") == {}
    assert with_status(rows, "skip") == {
        "same seed, other process": "needs to start a second server: check the environment's folder instead of a URL",
        "snapshots": "the server uses the published dialect, which has no snapshots",
        "leaks": "the server reports its sessions neither at /ready nor at /metrics, and its process is unknown",
    }


def test_a_url_without_a_server_fails_one_row_and_skips_the_others():
    rows = check_url("http://127.0.0.1:9")

    assert list(with_status(rows, "fail")) == ["reachable"]
    assert len(with_status(rows, "skip")) == len(CHECKS) - 1


@pytest.mark.parametrize(
    ("options", "words"), [({"seed": -1}, "seed=-1"), ({"seconds": 1.0}, "seconds=1"), ({}, "is not a URL")]
)
def test_wrong_arguments_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        check_url("http://127.0.0.1:9" if options else "here", **options)
