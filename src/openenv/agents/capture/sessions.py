"""The episodes whose calls are captured. The key that an agent's program sends is the id of its session."""

import hashlib
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openenv.agents.capture.graph import RolloutGraph
from openenv.agents.capture.upstream import training_sampling
from openenv.agents.endpoint.application import hash_of

if TYPE_CHECKING:
    from openenv.agents.endpoint.application import Episode

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_PURPOSES = ("auto", "eval", "train")
_EVAL_SAMPLING: dict[str, tuple[str, Callable[[float], bool]]] = {
    "temperature": ("from 0 to 2", lambda value: 0 <= value <= 2),
    "top_p": ("above 0, at most 1", lambda value: 0 < value <= 1),
    "top_k": ("-1 or a whole number from 1", lambda value: type(value) is int and (value == -1 or value >= 1)),
}


@dataclass(frozen=True)
class Upstream:
    """The engine that a session's calls go to."""

    llm_url: str
    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    auth_header: str = "Authorization"
    provider: str = "openai"

    @property
    def cache_key(self) -> tuple[str, str, str, str, str]:
        """What sessions share a client by. It has a hash of the API key."""
        key = hashlib.sha256((self.api_key or "").encode()).hexdigest()
        return self.llm_url.rstrip("/"), self.model, self.auth_header.lower(), key, self.provider


@dataclass(eq=False)
class Session:
    """One episode, and the calls of its model."""

    session_id: str
    created_at: float = field(default_factory=time.time)
    """Unix time in seconds, as `last_turn_at` is."""
    graph: RolloutGraph = field(default_factory=RolloutGraph)
    metadata: dict[str, Any] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    last_turn_at: float | None = None
    upstream_errors: int = 0
    upstream: Upstream | None = None
    """None: the server's own engine."""
    capture_level: str = ""
    """What the engine returns: tokens, logprobs, or text. Empty: what the server's own does."""
    purpose: str = "auto"
    eval_sampling: dict[str, Any] = field(default_factory=dict)
    model_calls: int = 0
    """Calls that the engine was asked to answer."""
    max_model_calls: int = 0
    """A further call is answered with BUDGET_STOP_MESSAGE; 0: no limit."""
    budget_stop_count: int = 0
    """Calls that were answered so."""
    sampling: dict[str, float | int] = field(default_factory=dict)
    """How replies are drawn in training, whatever the program asks for; empty: as it asks."""
    episode: "Episode | None" = field(default=None, repr=False)
    """What the endpoint serves under the key."""

    @property
    def over_budget(self) -> bool:
        """Whether the calls have reached their limit."""
        return 0 < self.max_model_calls <= self.model_calls

    def has_answered(self) -> None:
        """Set `last_turn_at`."""
        self.last_turn_at = time.time()

    @property
    def idle_seconds(self) -> float:
        """Since the last answer."""
        return time.time() - (self.last_turn_at or self.created_at)


class SessionRegistry:
    """The sessions of a server, by their ids. Thread-safe."""

    def __init__(self, *, require_registered: bool = True) -> None:
        """require_registered: whether a key that is none of a session is refused; else it begins one."""
        self.require_registered = require_registered
        self._sessions: dict[str, Session] = {}
        self._by_hash: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def create(
        self,
        session_id: str | None = None,
        *,
        upstream: Upstream | None = None,
        capture_level: str = "",
        purpose: str = "auto",
        eval_sampling: dict[str, Any] | None = None,
        max_model_calls: int = 0,
        sampling: dict[str, Any] | None = None,
        **metadata: Any,
    ) -> Session:
        """Begin a session, or change the one that has the id.

        Args:
            session_id: the key of the program; None, or one that is no key: a random one.
            capture_level: of `upstream`.
            purpose: train, eval, or auto for whichever the engine allows.
            sampling: see `training_sampling`.

        Raises:
            ValueError: for settings that contradict each other.
        """
        if type(max_model_calls) is not int or max_model_calls < 0:
            raise ValueError(f"max_model_calls={max_model_calls!r}: must be a whole number from 0")
        if capture_level or purpose not in _PURPOSES:
            rollout_type_for(purpose, capture_level)
        eval_policy, policy = evaluation_sampling(eval_sampling), training_sampling(sampling)
        if policy and purpose == "eval":
            raise ValueError("sampling is for training: give eval_sampling, or another purpose than eval")
        if eval_policy and purpose != "eval":
            raise ValueError(f"eval_sampling with purpose={purpose!r}: give purpose='eval'")
        key = clean_session_id(session_id) or f"s{secrets.token_hex(16)}"
        with self._lock:
            session = self._sessions.setdefault(key, Session(key))
            self._by_hash[hash_of(key)] = session
            session.metadata |= metadata
            session.purpose, session.eval_sampling = purpose, eval_policy
            session.upstream = upstream or session.upstream
            session.capture_level = capture_level or session.capture_level
            session.max_model_calls = max_model_calls or session.max_model_calls
            session.sampling = policy or session.sampling
        return session

    def get(self, session_id: str | None) -> Session | None:
        """The session with an id; None without one."""
        return self._sessions.get(session_id or "")

    def with_hash(self, key_hash: bytes) -> Session | None:
        """The session whose id has this hash (`agents.endpoint.application.hash_of`)."""
        return self._by_hash.get(key_hash)

    def resolve(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> Session | None:
        """The session of a request by its key, or one that the key begins; None where the request is refused."""
        key = extract_api_key(headers)
        return self.get(key) or (None if self.require_registered else self.create(key))

    def list_ids(self) -> list[str]:
        """The ids, sorted."""
        with self._lock:
            return sorted(self._sessions)

    def delete(self, session_id: str) -> bool:
        """End a session: its calls are cancelled, and later ones refused. Whether there was one."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
            self._by_hash.pop(hash_of(session_id), None)
        if session is not None and session.episode is not None:
            session.episode.close()
        return session is not None

    def summary(self) -> list[dict[str, Any]]:
        """Each session in figures."""
        with self._lock:
            sessions = list(self._sessions.values())
        return [
            {
                "session_id": one.session_id, "turns": len(one.graph.nodes()), "roots": len(one.graph.roots()),
                "idle_s": round(one.idle_seconds, 1), "upstream_errors": one.upstream_errors, **one.metadata,
            }
            for one in sessions
        ]  # fmt: skip


def clean_session_id(value: Any) -> str | None:
    """An id without white space around it; None for what is none. It may have letters, digits and _ . -"""
    return value.strip() if isinstance(value, str) and _ID.fullmatch(value.strip()) else None


def extract_api_key(headers: Mapping[str, str]) -> str | None:
    """The key that a client sends: as the bearer token, as x-api-key, or as x-goog-api-key."""
    given = {name.lower(): value for name, value in headers.items()}
    scheme, _, token = given.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else given.get("x-api-key") or given.get("x-goog-api-key")


def evaluation_sampling(value: dict[str, Any] | None) -> dict[str, Any]:
    """How replies are drawn in an evaluation. Raises ValueError for other keys or values."""
    for name, number in (value or {}).items():
        if name not in _EVAL_SAMPLING:
            raise ValueError(f"eval_sampling.{name} is not known: give {', '.join(_EVAL_SAMPLING)}")
        allowed, is_allowed = _EVAL_SAMPLING[name]
        if type(number) not in (int, float) or not math.isfinite(number) or not is_allowed(number):
            raise ValueError(f"eval_sampling.{name}={number!r}: must be {allowed}")
    return dict(value or {})


def rollout_type_for(purpose: str, capture_level: str) -> str:
    """Whether an episode is one to train on: train or eval. Raises ValueError for training without tokens."""
    if purpose not in _PURPOSES:
        raise ValueError(f"purpose={purpose!r}: must be one of {', '.join(_PURPOSES)}")
    if purpose == "train" and capture_level != "tokens":
        raise ValueError(f"purpose='train' needs an engine that returns tokens: this one returns {capture_level!r}")
    return "eval" if purpose == "eval" or capture_level != "tokens" else "train"
