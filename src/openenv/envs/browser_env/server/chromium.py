"""Chromium without a window, and the DevTools protocol that is spoken with it through two pipes.

One Chromium serves all sessions of a server. Each session has a page in a browser context of its own: cookies and
storage are not shared, and the renderer of each page is a process of its own. Chromium ends when its pipe closes, so
also when the server is killed. It reaches no network and no files but the tasks'.
"""

import atexit
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from openenv.formats.json_text import json_text
from openenv.installation import install_line

PROGRAM = "chromium"
CALL_TIMEOUT_S = 20.0
"""A page that does not respond for so long is closed."""
LOAD_TIMEOUT_S = 60.0
"""The same while Chromium starts or a file loads, which takes long on a busy machine."""
_END_TIMEOUT_S = 5.0
_READ_BYTES = 1 << 16
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # the pages are those of the package, and a container allows no other
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--no-first-run",
    "--mute-audio",
    "--lang=en-US",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_SHELL = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null'
"""Chromium's pipes are its file descriptors 3 and 4."""
_WINDOW = {"width": 500, "height": 320}
"""As MiniWoB has it."""


class PageLost(RuntimeError):
    """The page, or Chromium, has ended or does not respond. The page is closed."""


class Refused(ValueError):
    """A function of the page raised RangeError: it did nothing. The message has the reason."""


def task_folder() -> Path:
    """The folder of the tasks' files, in the package miniwob. It is found without importing selenium."""
    spec = importlib.util.find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the tasks need the package miniwob: {install_line('browser')}")
    return Path(spec.submodule_search_locations[0]) / "html"


class Chromium:
    """A running Chromium. Its methods may be called from any thread."""

    def __init__(self) -> None:
        """Start it. Raises RuntimeError, naming Debian's packages, where it is not installed or does not start."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise RuntimeError(
                f"{PROGRAM} is not installed where the server runs. Install Debian's packages: "
                "apt-get install chromium (and chromium-driver to measure it), or use `openenv build browser`."
            )
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, program, *_FLAGS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TZ": "UTC", "LANGUAGE": "en_US"},
            start_new_session=True,  # an interrupt of the terminal is the server's
        )
        self._lock = threading.Lock()
        self._number = 0
        self._calls: dict[int, tuple[str | None, Future[dict[str, Any]]]] = {}
        """The session and the result of each call without a response."""
        self.is_running = True
        threading.Thread(target=self._read, name="chromium", daemon=True).start()
        try:
            self.call("Browser.setDownloadBehavior", {"behavior": "deny"}, timeout_s=LOAD_TIMEOUT_S)
        except PageLost as error:
            self.stop()
            raise RuntimeError(
                f"{program} did not start: run `{program} --headless --no-sandbox` to see why"
            ) from error

    def send(self, method: str, params: Mapping[str, Any], session: str | None = None) -> "Future[dict[str, Any]]":
        """Send a call; its response is set later. session: of a page; None: the browser's own."""
        future: Future[dict[str, Any]] = Future()
        message: dict[str, Any] = {"method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        with self._lock:
            if not self.is_running:
                raise PageLost("Chromium has ended")
            self._number += 1
            self._calls[self._number] = session, future
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json_text({"id": self._number, **message}).encode() + b"\0")
                self._process.stdin.flush()
            except OSError as error:
                raise PageLost("Chromium has ended") from error
        return future

    def call(
        self, method: str, params: Mapping[str, Any], session: str | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> dict[str, Any]:
        """The result of a call. Raises PageLost."""
        return result_of(self.send(method, params, session), timeout_s)

    def stop(self) -> None:
        """End it, and wait for its end."""
        with self._lock:
            self.is_running = False
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        """Set the result of each call until Chromium ends."""
        assert self._process.stdout is not None
        rest = b""
        while data := os.read(self._process.stdout.fileno(), _READ_BYTES):
            *messages, rest = (rest + data).split(b"\0")
            for message in messages:
                self._take(json.loads(message))
        with self._lock:
            self.is_running = False
        self._fail(None, "Chromium has ended")
        self._process.wait()

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            _, future = self._calls.pop(message["id"], (None, None))
            if future is not None:
                future.set_result(message)
        elif message["method"] == "Target.detachedFromTarget":
            self._fail(message["params"]["sessionId"], "the page has ended")
        elif message["method"] == "Inspector.targetCrashed":
            self._fail(message["sessionId"], "the page has crashed")

    def _fail(self, session: str | None, reason: str) -> None:
        """Fail the calls of a session; of all for None."""
        for number, (owner, future) in list(self._calls.items()):
            if session in (None, owner) and self._calls.pop(number, None) is not None:
                future.set_exception(PageLost(reason))


def result_of(future: "Future[dict[str, Any]]", timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Any]:
    """The result of a call that was sent. Raises PageLost where there is none in time."""
    try:
        message = future.result(timeout_s)
    except TimeoutError:
        raise PageLost(f"the page did not respond for {timeout_s:g} s") from None
    if "error" in message:
        raise PageLost(f"Chromium refused a call: {message['error']['message']}")
    result: dict[str, Any] = message["result"]
    return result


class Page:
    """A page in a browser context of its own, which may load files of the tasks only."""

    def __init__(self, chromium: Chromium, script: str) -> None:
        """script: runs before those of each file. Raises PageLost."""
        self._chromium = chromium
        self._context = chromium.call("Target.createBrowserContext", {})["browserContextId"]
        self._functions = ""
        """Chromium's name of the object whose functions are called."""
        try:
            self._session = self._open()
            self._restrict()
            self.call("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        except PageLost:
            self.close()
            raise

    def _open(self) -> str:
        """Open the page; returns the session of its calls."""
        blank = {"url": "about:blank", "browserContextId": self._context, **_WINDOW}
        target = self._chromium.call("Target.createTarget", blank, timeout_s=LOAD_TIMEOUT_S)
        attached = self._chromium.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        return str(attached["sessionId"])

    def _restrict(self) -> None:
        """Let the page load the tasks' files and nothing else, and report its crashes."""
        allowed = [{"urlPattern": f"{task_folder().as_uri()}/*", "block": False}]
        blocked = [{"urlPattern": pattern, "block": True} for pattern in ("file:///*", "*://*:*/*")]
        for domain in ("Page", "Network", "Inspector"):
            self.call(f"{domain}.enable", {})
        self.call("Network.setBlockedURLs", {"urlPatterns": allowed + blocked})

    def call(self, method: str, params: Mapping[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Any]:
        """The result of a call to the page. Raises PageLost."""
        return self._chromium.call(method, params, self._session, timeout_s)

    def send(self, method: str, params: Mapping[str, Any]) -> "Future[dict[str, Any]]":
        """Send a call to the page; `result_of` waits for its result."""
        return self._chromium.send(method, params, self._session)

    def load(self, path: Path, functions: str) -> None:
        """Load a file and wait until it is complete. functions: the name of the object of `run`. Raises PageLost."""
        found = self.call("Page.navigate", {"url": path.as_uri()}, LOAD_TIMEOUT_S)
        if "errorText" in found:
            raise PageLost(f"{path.name} did not load: {found['errorText']}")
        ready = (
            "new Promise(resolve => document.readyState === 'complete' ? resolve()"
            f" : addEventListener('load', () => resolve())).then(() => {functions})"
        )
        loaded = self.call("Runtime.evaluate", {"expression": ready, "awaitPromise": True}, LOAD_TIMEOUT_S)
        if "exceptionDetails" in loaded:
            raise PageLost(f"{path.name} did not load: {loaded['result'].get('description')}")
        self._functions = loaded["result"]["objectId"]

    def run(self, function: str, *arguments: Any) -> Any:
        """The result of a function of the page. The arguments travel as values. Raises Refused and PageLost."""
        params = {
            "objectId": self._functions,
            "functionDeclaration": "function (name, ...values) { return this[name](...values); }",
            "arguments": [{"value": value} for value in (function, *arguments)],
            "returnByValue": True,
            "awaitPromise": True,
        }
        found = self.call("Runtime.callFunctionOn", params)
        if "exceptionDetails" in found:
            raised = found["exceptionDetails"].get("exception", {})
            reason = str(raised.get("description", raised.get("value"))).partition("\n")[0]
            if raised.get("className") == "RangeError":
                raise Refused(reason.removeprefix("RangeError: "))
            raise PageLost(f"the page failed: {reason}")
        return found["result"].get("value")

    def close(self) -> None:
        """Close the page and its context. A page that does not respond ends too."""
        if self._chromium.is_running:
            with contextlib.suppress(PageLost):
                self._chromium.call("Target.disposeBrowserContext", {"browserContextId": self._context})


class SharedChromium:
    """The Chromium of this server. It starts with the first page, and again after it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Chromium | None = None

    def new_page(self, script: str) -> Page:
        """Raises PageLost, and RuntimeError where Chromium does not start."""
        return Page(self.running(), script)

    def running(self) -> Chromium:
        """The running Chromium."""
        with self._lock:
            if self._running is None or not self._running.is_running:
                self._running = Chromium()
                atexit.register(self._running.stop)
            return self._running


CHROMIUM = SharedChromium()
