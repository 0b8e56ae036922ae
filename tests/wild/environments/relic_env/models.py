"""Messages of the relic: whichever name the package has."""

from dataclasses import dataclass, field

try:
    from core.env_server.types import Action, Observation
except ImportError:
    from openenv_core.env_server.types import Action, Observation


@dataclass
class RelicAction(Action):
    """A number to add."""

    number: int


@dataclass(kw_only=True)
class RelicObservation(Observation):
    """The sum so far."""

    total: int
    history: list[int] = field(default_factory=list)
