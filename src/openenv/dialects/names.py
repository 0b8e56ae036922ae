"""Environments by the names `verifiers:NAME`, `ors:URL`, `harbor:PATH` and `nemo-gym:URL`."""

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from openenv.formats.json_text import json_or_word

if TYPE_CHECKING:
    from openenv.core.env_server.runner.env_spec import EnvSpec

VERIFIERS, ORS, HARBOR, NEMO_GYM = "verifiers:", "ors:", "harbor:", "nemo-gym:"
"""Begin the names of environments of `verifiers`, of a server of the Open Reward Standard, of tasks of Harbor, and of a
resources server of NeMo Gym."""
DIALECTS = (VERIFIERS, ORS, HARBOR, NEMO_GYM)


def target_and_arguments(name: str) -> tuple[str, dict[str, Any]]:
    """The parts of a name before and after its question mark."""
    target, _, query = name.partition("?")
    return target, {key: json_or_word(value) for key, value in parse_qsl(query, keep_blank_values=True)}


def dialect_spec(name: str) -> "EnvSpec":
    """The specification of the environment of a name.

    name: `verifiers:NAME`, `verifiers:FILE.py`, `ors:URL`, `nemo-gym:URL?data=FILE.jsonl`, `harbor:PATH` or
    `harbor:git+URL@COMMIT`. After it, `?KEY=VALUE&KEY=VALUE` are arguments, whose values are JSON or words. Raises
    ValueError for another name, and what loading the environment raises.
    """
    target, arguments = target_and_arguments(name)
    if name.startswith(VERIFIERS):
        from openenv.dialects.verifiers_environment import verifiers_spec  # loads verifiers

        return verifiers_spec(target.removeprefix(VERIFIERS), arguments)
    if name.startswith(ORS):
        from openenv.dialects.ors_environment import ors_spec  # loads a client

        return ors_spec(target.removeprefix(ORS), **arguments)
    if name.startswith(HARBOR):
        from openenv.dialects.harbor.environment import harbor_spec  # loads sandboxes

        return harbor_spec(target.removeprefix(HARBOR), arguments)
    if name.startswith(NEMO_GYM):
        from openenv.dialects.nemo_gym_environment import nemo_gym_spec  # loads a client

        return nemo_gym_spec(target.removeprefix(NEMO_GYM), **arguments)
    raise ValueError(f"{name!r} names no dialect: write {VERIFIERS}NAME, {ORS}URL, {NEMO_GYM}URL or {HARBOR}PATH")
