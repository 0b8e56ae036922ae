"""What a policy is: something with a name that chooses an action for an observation."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from openenv.core.env_server.types import Action

Choice = int | Action | None
"""The number of a legal action, an action, or None for a policy that found none: it gives the episode up."""


@runtime_checkable
class ActsOnObservations(Protocol):
    """The least a policy has. Any object of this shape can be evaluated; `Policy` adds what some policies need."""

    name: str

    def select_action(self, observation: Any) -> Any:
        """The action to take: an int from `legal_actions`, or an action of the environment."""


class Policy:
    """Chooses actions. Subclass it with `select_action`; override the rest where the policy needs it."""

    name: str = "policy"

    learns: ClassVar[bool] = False
    """True for a policy that changes as it plays: its episodes are then played one after another."""

    is_slow: ClassVar[bool] = False
    """True when choosing takes more than a millisecond: it is then asked in a thread, beside the event loop."""

    follows_episodes: bool = False
    """True for a policy that remembers each episode: `select_actions` is then told each observation's episode."""

    reset_kwargs: Mapping[str, Any] = {}
    """What the policy needs said at each reset."""

    def select_action(self, observation: Any) -> Choice:
        """The action to take on `observation`."""
        raise NotImplementedError(f"{type(self).__name__} needs select_action(observation)")

    def select_actions(self, observations: Sequence[Any]) -> list[Any]:
        """One choice for each observation, in their order."""
        return [self.select_action(observation) for observation in observations]

    def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, done: bool) -> None:
        """Hear what `action` led to; called once after each step. Learns nothing unless overridden."""


def legal_names(observation: Any) -> list[str]:
    """The legal actions' names in lower case, in the order of the actions; their numbers where there are no names."""
    names = observation.metadata.get("legal_action_names") or map(str, observation.legal_actions)
    return [str(name).lower() for name in names]
