"""Environments by the names `verifiers:NAME` and `ors:URL`."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from openenv.formats.json_text import json_or_word

if TYPE_CHECKING:
    from openenv.core.env_server.runner.env_spec import EnvSpec

VERIFIERS, ORS = "verifiers:", "ors:"
"""Begin the names of environments of `verifiers`, and of a server of the Open Reward Standard."""


def dialect_spec(name: str) -> "EnvSpec":
    """The specification of the environment of a name.

    name: `verifiers:NAME`, `verifiers:FILE.py` or `ors:URL`; `?KEY=VALUE&KEY=VALUE` after it are arguments, whose
    values are JSON or words. Raises ValueError for another name, and what loading the environment raises.
    """
    target, _, query = name.partition("?")
    arguments = {key: json_or_word(value) for key, value in parse_qsl(query, keep_blank_values=True)}
    if name.startswith(VERIFIERS):
        from openenv.dialects.verifiers_environment import verifiers_spec  # loads verifiers

        return verifiers_spec(target.removeprefix(VERIFIERS), arguments)
    if name.startswith(ORS):
        from openenv.dialects.ors_environment import ors_spec  # loads a client

        return ors_spec(target.removeprefix(ORS), **arguments)
    raise ValueError(f"{name!r} names no dialect: write {VERIFIERS}NAME or {ORS}URL")
