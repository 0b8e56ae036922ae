"""The Chromium of a server: pages that hang or crash, its end and its start, and what a page may reach."""

import os
import select
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra, require_programs

require_extra("miniwob", "browser")
require_programs("chromium")

from openenv.envs.browser_env import BrowserAction, BrowserEnv
from openenv.envs.browser_env.server.app import app
from openenv.envs.browser_env.server.chromium import CHROMIUM, PageLost, task_folder
from openenv.hosting.local_process import LocalServer

pytestmark = pytest.mark.process

NOOP = BrowserAction(kind="noop")
END_TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def second_session(title):
    """A further session of the page with this title, by which a test can disturb it."""
    targets = CHROMIUM.running().call("Target.getTargets", {})["targetInfos"]
    (page,) = (target for target in targets if target["title"] == title)
    return CHROMIUM.running().call("Target.attachToTarget", {"targetId": page["targetId"], "flatten": True})[
        "sessionId"
    ]


def disturb(title, method, **params):
    CHROMIUM.running().send(method, params, second_session(title))


def test_a_page_that_hangs_holds_up_no_other_session_and_its_episode_is_lost(url):
    with BrowserEnv(url) as hanging, BrowserEnv(url) as other, ThreadPoolExecutor(1) as pool:
        hanging.reset(task="focus-text", seed=1)
        other.reset(task="click-test-2", seed=1)
        disturb("Focus Text Task", "Runtime.evaluate", expression="for (;;) {}")
        stuck = pool.submit(hanging.step, NOOP)
        rewards = [other.step(NOOP).reward for _ in range(10)]

        assert rewards == [0.0] * 10
        assert not stuck.done()
        with pytest.raises(
            EnvironmentFault, match=r"the episode is lost: the page did not respond for 20 s\. Call reset"
        ):
            stuck.result()
        with pytest.raises(EnvironmentFault, match=r"there is no episode\. Call reset\(\) first"):
            hanging.step(NOOP)
        assert hanging.reset(task="focus-text", seed=1).observation.elements
        assert other.step(NOOP).reward == 0.0


def test_sixteen_sessions_that_reset_at_once_all_get_their_pages(url):
    with ExitStack() as stack, ThreadPoolExecutor(16) as pool:
        clients = [stack.enter_context(BrowserEnv(url)) for _ in range(16)]
        results = list(pool.map(lambda client: client.reset(task="click-test-2", seed=1), clients))

    assert [result.observation for result in results] == [results[0].observation] * 16


def test_a_page_that_crashes_costs_its_own_session_the_episode(url):
    with BrowserEnv(url) as crashing, BrowserEnv(url) as other:
        crashing.reset(task="focus-text", seed=1)
        other.reset(task="click-test-2", seed=1)
        disturb("Focus Text Task", "Page.crash")
        with pytest.raises(EnvironmentFault, match=r"the episode is lost: the page has (crashed|ended)"):
            crashing.step(NOOP)

        assert other.step(NOOP).reward == 0.0
        assert crashing.reset(task="focus-text", seed=1).observation.elements


def test_a_chromium_that_dies_is_started_again_by_the_next_reset(url):
    with BrowserEnv(url) as env, BrowserEnv(url) as other:
        for client in (env, other):
            client.reset(task="click-test-2", seed=1)
        died = CHROMIUM.running()
        processes = died.call("SystemInfo.getProcessInfo", {})["processInfo"]
        (pid,) = (process["id"] for process in processes if process["type"] == "browser")
        os.kill(pid, signal.SIGKILL)
        for client in (env, other):
            with pytest.raises(EnvironmentFault, match=r"the episode is lost: Chromium has ended\. Call reset"):
                client.step(NOOP)

        assert (
            env.reset(task="click-test-2", seed=1).observation == other.reset(task="click-test-2", seed=1).observation
        )
        assert not died.is_running
        assert CHROMIUM.running() is not died


def test_a_session_that_ends_closes_its_page(url):
    def pages():
        infos = CHROMIUM.running().call("Target.getTargets", {})["targetInfos"]
        return [info["title"] for info in infos if info["title"] == "Focus Text Task"]

    with BrowserEnv(url) as env:
        env.reset(task="focus-text", seed=1)
        assert len(pages()) == 1
    assert pages() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_chromium_ends_with_the_server_however_it_ends(number):
    with LocalServer("openenv.envs.browser_env.server.app") as server, BrowserEnv(server.base_url) as env:
        env.reset(task="click-test-2", seed=1)
        watched = [os.pidfd_open(pid) for pid in processes_below(server.pid)]
        os.kill(server.pid, number)

        assert len(watched) >= 3, "the browser, a zygote, a renderer"
        for pidfd in watched:
            assert select.select([pidfd], [], [], END_TIMEOUT_MS / 1000)[0], "a process of Chromium is left"


def processes_below(pid):
    """The ids of all processes that a process has started, and theirs."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [*children, *(below for child in children for below in processes_below(child))]


@pytest.fixture
def page():
    opened = CHROMIUM.new_page("window.functions = {};")
    yield opened
    opened.close()


def loads(page, tag, address):
    """Whether an element of the page loads an address."""
    expression = """new Promise((resolve) => {
        const element = document.createElement(TAG);
        element.onload = () => resolve(true);
        element.onerror = () => resolve(false);
        element.src = ADDRESS;
        document.body.append(element);
    })""".replace("TAG", repr(tag)).replace("ADDRESS", repr(address))
    found = page.call("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    return found["result"]["value"]


def test_a_page_loads_the_files_of_the_tasks_and_no_others(page, tmp_path):
    picture = task_folder() / "common/special/checkbox-numbers/ch_1.png"
    (tmp_path / "copy.png").write_bytes(picture.read_bytes())
    page.load(task_folder() / "miniwob/click-test.html", "functions")

    assert loads(page, "img", picture.as_uri())
    assert not loads(page, "img", (tmp_path / "copy.png").as_uri())


def test_a_page_reaches_no_network(page):
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page.load(task_folder() / "miniwob/click-test.html", "functions")
    try:
        for host in ("127.0.0.1", "localhost"):
            assert not loads(page, "script", f"http://{host}:{server.server_port}/")
        with pytest.raises(PageLost, match="did not load"):
            page.load(Path(f"//{server.server_port}"), "functions")
    finally:
        server.shutdown()

    assert asked == []
