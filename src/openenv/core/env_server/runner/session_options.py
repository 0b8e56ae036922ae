"""Options of one session, parsed from the URL of its WebSocket, and the runner for them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field

from openenv.core.env_server.interfaces import Execution
from openenv.core.env_server.runner.env_runner import EnvRunner, SubmitCoroutine
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments
from openenv.core.errors import InvalidMessage
from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL
from openenv.core.wire.server_codec import checked

Autoreset = Literal["next_step", "same_step", "disabled"]
Query = Mapping[str, list[str]]
"""Parameters of a URL."""


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """A session of many environments that are stepped together."""

    num_envs: int
    autoreset: Autoreset = "next_step"
    """When an environment whose episode is over is reset: by the next step, by the same step, or by a reset only."""
    stacked: bool = True
    """Whether a response has one array for each field, instead of one response for each environment."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How one session is made."""

    packs_arrays: bool = False
    """Whether the client reads arrays as raw bytes."""
    vector: VectorOptions | None = None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "SessionOptions":
        """The options that `dataclasses.asdict` made these fields of."""
        vector = fields["vector"]
        return cls(fields["packs_arrays"], None if vector is None else VectorOptions(**vector))


DEFAULT_OPTIONS = SessionOptions()


def parse_session_options(query: Query, *, packs_arrays: bool, max_envs: int) -> SessionOptions:
    """The options in the URL of a new session. Raises InvalidMessage that names each wrong parameter.

    max_envs: the most environments of one session.
    """
    if "num_envs" not in query or "session_id" in query:
        return SessionOptions(packs_arrays)
    if not packs_arrays:
        raise InvalidMessage(f"num_envs: many environments in a session need the subprotocol {ARRAYS_SUBPROTOCOL}")
    given = {name: query[name][-1] for name in ("num_envs", "autoreset", "stacked") if name in query}
    options = VectorOptions(**dict(checked(_VectorQuery, given)))
    if options.num_envs > max_envs:
        raise InvalidMessage(
            f"num_envs={options.num_envs} is above this server's limit of {max_envs}: open several sessions "
            "(num_sessions), or serve with a larger max_envs_per_session"
        )
    return SessionOptions(packs_arrays, options)


class _VectorQuery(BaseModel):
    num_envs: int = Field(ge=1)
    autoreset: Autoreset = "next_step"
    stacked: bool = True


def make_runner(
    spec: EnvSpec,
    arguments: MethodArguments,
    submit: SubmitCoroutine,
    options: SessionOptions,
    execution_override: Execution | None = None,
) -> EnvRunner:
    """The runner of a new session's environment, or environments. Raises FactoryFault, NotSupported."""
    if options.vector is None:
        return EnvRunner(spec, arguments, submit, execution_override, packs_arrays=options.packs_arrays)
    # numpy belongs to servers of vector sessions
    from openenv.core.env_server.runner.vector_runner import VectorRunner

    return VectorRunner(spec, arguments, submit, execution_override, **asdict(options.vector))
