"""What is being checked."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from openenv.core.containers.local_process import LocalServer
from openenv.evaluation.quality.dialogue import Address, Dialogue
from openenv.evaluation.quality.players import FirstActionPlayer, RandomPlayer


@dataclass(kw_only=True)
class Subject:
    """A server under check, and what the first checks have learnt about it."""

    address: Address
    seed: int
    server: LocalServer | None = None
    """The server's process, when it was started for the check."""
    start_another: Callable[[], AbstractContextManager[LocalServer]] | None = None
    """Starts a second server of the same environment; None where only a URL is known."""
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """What `/schema` says: action, observation, state, perhaps reset_observation."""

    @property
    def action_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the actions."""
        schema: Mapping[str, Any] = self.schemas.get("action", {})
        return schema

    def dialogue(self, *, extended: bool = False, session_id: str | None = None, waits: bool = True) -> Dialogue:
        """A new conversation with the server."""
        return Dialogue(self.address, extended=extended, session_id=session_id, waits=waits)

    def random_player(self, purpose: str) -> RandomPlayer:
        """A random player that plays the same for the same seed and purpose."""
        return RandomPlayer(self.action_schema, Random(f"{self.seed} {purpose}"))

    def first_action_player(self) -> FirstActionPlayer:
        """The player that does the same every time."""
        return FirstActionPlayer(self.action_schema)
