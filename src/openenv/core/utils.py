"""Names of servers, and coroutines run from any code: what programs for the published package take from here."""

import asyncio
import re
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def run_async_safely(coro: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine, also where an event loop runs already, which then waits for it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coro)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coro).result()


def convert_to_ws_url(url: str) -> str:
    """A server's URL with `ws` in place of `http`, `wss` in place of `https`, and no slash at its end."""
    scheme, separator, rest = url.rstrip("/").partition("://")
    if not separator:
        return f"ws://{scheme}"
    return f"{ {'http': 'ws', 'https': 'wss'}.get(scheme.lower(), scheme) }://{rest}"


def hf_space_subdomain(repo_id: str) -> str:
    """The name of a Space in the Hub's host names and image names: `owner-my-env` for `Owner/my_env`."""
    return re.sub(r"[^a-z0-9]", "-", repo_id.lower())
