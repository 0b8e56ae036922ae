"""The user's account at the Hugging Face Hub, and what the commands of the Hub read from their options."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from openenv.installation import install_line

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_UNAUTHORIZED = 401
_NAME = r"[A-Za-z0-9][\w.-]*"


def hub_api() -> "HfApi":
    """The client of the Hub at HF_ENDPOINT. Raises ImportError that names the extra."""
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ImportError(f"the commands of the Hub need an extra: {install_line('hub')}") from error
    return HfApi()


def user_name(api: "HfApi") -> str:
    """The name of the signed-in user. Ends with exit code 2 without a valid token; raises OSError."""
    from huggingface_hub.errors import LocalTokenNotFoundError

    remedy = f"not signed in at {api.endpoint}: run `hf auth login`, or set HF_TOKEN"
    try:
        with hub_errors("the Hub does not say which user this is"):
            return str(api.whoami()["name"])
    except LocalTokenNotFoundError as error:
        raise typer.BadParameter(remedy) from error
    except HubFault as error:
        if error.status == _UNAUTHORIZED:
            raise typer.BadParameter(remedy) from error
        raise


class HubFault(OSError):
    """The Hub refused a request, or could not be reached."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status
        """Of its response; None without one."""


@contextlib.contextmanager
def hub_errors(failed: str) -> Iterator[None]:
    """Raise HubFault, in one line that begins with `failed`, for the errors of requests inside the `with` statement."""
    from httpx2 import HTTPError  # which huggingface_hub raises

    try:
        yield
    except HTTPError as error:
        response = getattr(error, "response", None)
        reason = " ".join(str(error).split()) or type(error).__name__
        raise HubFault(f"{failed}: {reason}", None if response is None else response.status_code) from error


def key_values(option: str, pairs: Sequence[str], *, is_secret: bool = False) -> dict[str, str]:
    """The pairs of a repeated option KEY=VALUE; of equal keys the last. Ends with exit code 2 for another form.

    is_secret: messages do not show values, and KEY alone takes the value of the environment variable KEY. A warning
    says so where the value is on the command line, which every user of the machine can read.
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if is_secret and not equals and pair in os.environ:
            found[pair] = os.environ[pair]
            continue
        if not key.strip() or not equals:
            form = "KEY, with the value in the environment variable KEY," if is_secret else "KEY=VALUE"
            raise typer.BadParameter(f"{option} {'(not shown)' if is_secret else repr(pair)}: write {form}")
        if is_secret:
            typer.echo(f"other users of this machine can read {option} {key}=...: export {key}, and write"
                       f" {option} {key}", err=True)  # fmt: skip
        found[key.strip()] = value
    return found


def require_space_id(named: str, repo_id: str) -> None:
    """End with exit code 2 unless the value of the argument `named` is OWNER/NAME."""
    if not re.fullmatch(f"{_NAME}/{_NAME}", repo_id):
        raise typer.BadParameter(f"{named} {repo_id!r}: write OWNER/NAME, such as my-name/my-env")
