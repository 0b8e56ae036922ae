"""The interface of a policy: a name and a choice of an action for an observation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from openenv.core.env_server.types import Action
from openenv.core.errors import OpenEnvError


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReply:
    """A reply of a policy that is shown messages, such as a language model."""

    prompt: Sequence[Mapping[str, Any]]
    """The messages that it was shown, those of earlier turns included."""
    message: Mapping[str, Any]
    """The message of the assistant."""
    names_action: bool
    is_cut_off: bool = False
    """Whether the limit of tokens ended it."""
    functions: Sequence[Mapping[str, Any]] = ()
    """The definitions of the functions that it might have called."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """0: they are not counted."""


@dataclass(frozen=True, slots=True)
class EndEpisode:
    """A choice that ends the episode without an action."""

    reason: str
    counts: bool = False
    """Whether the episode's rewards so far count. Otherwise the episode is unparseable."""
    error: Exception | None = None
    """What kept the policy from choosing: the episode is invalid, which is no result of the policy."""

    @classmethod
    def of_error(cls, error: Exception) -> "EndEpisode":
        """The end of an episode in which the policy failed to choose."""
        kind = "" if isinstance(error, OpenEnvError) else f"{type(error).__name__}: "
        return cls(f"policy: {kind}{error}", error=error)


Choice = int | Action | EndEpisode | None
"""The number of a legal action, an action, the end of the episode, or None if the policy found no action, which ends
the episode as unparseable."""


@runtime_checkable
class ActsOnObservations(Protocol):
    """The required part of the interface. Any object with it can be evaluated; `Policy` has the optional parts."""

    name: str

    def select_action(self, observation: Any) -> Any:
        """Choose an action: an int from `legal_actions`, or an action of the environment."""


class NumberedAction(Action):
    """An action by its number among `legal_actions`, of any environment whose actions have an `action_id`."""

    action_id: int


def as_action(choice: Any) -> Any:
    """The action of a choice, which may be its number."""
    return NumberedAction(action_id=choice) if isinstance(choice, int) else choice


class Policy:
    """Base class of policies. Implement `select_action` and override the rest as needed."""

    name: str = "policy"

    learns: ClassVar[bool] = False
    """True if the policy changes during play: its episodes are then played one after another."""

    is_slow: bool = False
    """True if a choice takes more than a millisecond: it is then made in a thread, beside the event loop."""

    follows_episodes: bool = False
    """True if the policy remembers episodes: `select_actions` then receives their numbers, and `end_episode` is called
    after each, also after one that was interrupted."""

    reset_kwargs: Mapping[str, Any] = {}
    """Keywords that the policy needs in each reset."""

    def select_action(self, observation: Any) -> Choice:
        """Choose an action for `observation`."""
        raise NotImplementedError(f"{type(self).__name__} needs select_action(observation)")

    def select_actions(self, observations: Sequence[Any], episodes: Sequence[int] | None = None) -> list[Any]:
        """One choice for each observation, in their order. episodes: their episodes, if it follows episodes.

        What `select_action` raises ends the episode of that observation alone. A method of one's own may raise an
        OpenEnvError, which ends all these episodes; another exception ends the evaluation.
        """
        return [self._choice(observation) for observation in observations]

    def _choice(self, observation: Any) -> Any:
        try:
            return self.select_action(observation)
        except Exception as error:  # noqa: BLE001  border: a policy is anyone's code
            return EndEpisode.of_error(error)

    def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, done: bool) -> None:
        """Receive the result of `action`; called after each step. Does nothing unless overridden."""

    def forget_episode(self) -> None:
        """An episode has failed: nothing more is learned of it. Does nothing unless overridden."""

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """The environment refused the action that was chosen last in an episode. refusals: how many in a row.

        Returns whether the policy chooses again, for the same observation. Otherwise the episode ends as unparseable.
        """
        return False

    def take_replies(self, episode: int) -> list[PolicyReply]:
        """The replies in an episode since the last call, if the policy follows episodes and is shown messages."""
        return []

    def end_episode(self, episode: int) -> None:
        """An episode has ended, if the policy follows episodes. Does nothing unless overridden."""


def legal_names(observation: Any) -> list[str]:
    """Names of the legal actions in lower case, in their order; their numbers if they have no names."""
    names = observation.metadata.get("legal_action_names") or map(str, observation.legal_actions)
    return [str(name).lower() for name in names]
