"""How a session speaks: what its client reads, and whether it is one environment or many."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.loop_thread import LoopThread
from openenv.core.env_server.verbs import Verbs, VerbSignatures
from openenv.core.env_server.wire import checked
from openenv.core.errors import InvalidMessage
from openenv.core.protocol import ARRAYS_SUBPROTOCOL

Autoreset = Literal["next_step", "same_step", "disabled"]
Query = Mapping[str, list[str]]
"""A URL's parameters."""
MAX_ENVS = 65_536
"""Environments of one session."""


@dataclass(frozen=True, slots=True)
class VectorManner:
    """A session of many environments that are stepped together."""

    num_envs: int
    autoreset: Autoreset = "next_step"
    """When an environment whose episode is over is reset: by the step after, by the same step, or when told to."""
    stacked: bool = True
    """Whether an answer has one array for each field, or else one whole answer for each environment."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How one session is to be made."""

    packs_arrays: bool = False
    """Whether the client reads arrays as raw bytes."""
    vector: VectorManner | None = None


PLAIN = Manner()


def manner_of(query: Query, *, packs_arrays: bool) -> Manner:
    """What the URL of a new session asks for. Raises InvalidMessage that names what is wrong with it."""
    if "num_envs" not in query or "session_id" in query:
        return Manner(packs_arrays)
    if not packs_arrays:
        raise InvalidMessage(f"num_envs: many environments in a session need the subprotocol {ARRAYS_SUBPROTOCOL}")
    said = {name: query[name][-1] for name in ("num_envs", "autoreset", "stacked") if name in query}
    return Manner(packs_arrays, VectorManner(**dict(checked(_VectorQuery, said))))


class _VectorQuery(BaseModel):
    num_envs: int = Field(ge=1, le=MAX_ENVS)
    autoreset: Autoreset = "next_step"
    stacked: bool = True


def verbs_for(declaration: Declaration, signatures: VerbSignatures, loop: LoopThread, manner: Manner) -> Verbs:
    """The environment, or the environments, of a new session and their verbs. Raises FactoryFault."""
    if manner.vector is None:
        return Verbs(declaration, signatures, loop, packs_arrays=manner.packs_arrays)
    # numpy belongs to servers that are asked for it
    from openenv.core.env_server.vector_verbs import VectorVerbs

    return VectorVerbs(declaration, signatures, loop, manner.vector)
