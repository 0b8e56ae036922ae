"""Whether a run has anything to learn from: groups whose episodes differ in reward. If none has, why not."""

from collections import Counter
from collections.abc import Sequence

from openenv.core.errors import OpenEnvError
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.schema.legal_actions import REFUSED_REMEDY


class NothingToLearn(OpenEnvError):
    """No group of many steps had episodes with different rewards. The message says why, and what to change."""


class SignalWatch:
    """Counts the steps since a group had episodes with different rewards, and explains why none had."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._forget()

    def _forget(self) -> None:
        self.steps_without = 0
        """Number of steps since the last one with a signal."""
        self._outcomes: Counter[str] = Counter()
        self._returns: set[float] = set()
        self._rewards: set[float] = set()
        self._num_cut_off = 0
        self._reasons: dict[str, str] = {}

    def add(self, groups: Sequence[Group]) -> None:
        """Add the groups that were played for a step."""
        if any(map(has_signal, groups)):
            self._forget()
            return
        self.steps_without += 1
        for trajectory in (t for group in groups for t in group.trajectories):
            self._outcomes[trajectory.outcome] += 1
            self._num_cut_off += sum(turn.is_cut_off for turn in trajectory.turns)
            if trajectory.reason:
                self._reasons[trajectory.outcome] = trajectory.reason[:300]
            if trajectory.valid:
                self._rewards.add(trajectory.reward)
            if trajectory.outcome not in ("invalid", "unparseable"):
                self._returns.add(trajectory.game_return or 0.0)

    @property
    def is_due(self) -> bool:
        """Whether to warn after this step."""
        return self.steps_without == self._config.trainer.training.patience or self.has_given_up

    @property
    def has_given_up(self) -> bool:
        """Whether training ends after this step."""
        return self.steps_without == 2 * self._config.trainer.training.patience

    @property
    def reason(self) -> str:
        """Why no group had a signal, and what to change."""
        return f"no group of the last {self.steps_without} steps had episodes with different rewards: {self._reason()}"

    def _reason(self) -> str:
        total, unparseable = self._outcomes.total(), self._outcomes["unparseable"]
        if self._outcomes["invalid"] == total:
            return f"all {total} episodes are invalid ({self._reasons.get('invalid')}). Mend the environment."
        if not self._returns:
            remedy = legal_reply_remedy(self._config, self._num_cut_off)
            return (
                f"all {unparseable} episodes ended with a reply that names no legal action "
                f"({self._reasons.get('unparseable')}). To change: {remedy}."
            )
        low, high = min(self._returns), max(self._returns)
        if low < high and len(self._rewards) == 1:
            settings = "reward.win, push and loss" if self._config.reward.by_outcome else "reward.clip or the reward"
            return (
                f"all rewards are {min(self._rewards):g}, although returns range from {low:g} to {high:g}. Remove or "
                f"change {settings}, so that rewards differ where returns do."
            )
        if low == high and not unparseable:
            return (
                f"all returns are {low:g}. Either the policy can do no better, or whatever it tries is rewarded alike: "
                "let the environment reward progress too, or raise group_size."
            )
        entropy = "loss.entropy_floor" if self._config.loss.entropy_floor else "loss.entropy_weight"
        return (
            f"returns range from {low:g} to {high:g}, and {unparseable} of {total} episodes are unparseable, but those "
            f"from one start all end alike. Raise group_size or {entropy}, so that the policy tries more."
        )


def legal_reply_remedy(config: Config, num_cut_off: int = 0) -> str:
    """What to change where no reply names a legal action. `num_cut_off`: replies that were cut off."""
    if num_cut_off:
        return f"raise max_res_tokens={config.max_res_tokens}, which cut off {num_cut_off} replies"
    if config.sampling.constrain:
        return (
            f"raise max_res_tokens={config.max_res_tokens} where thinking is cut off. Where the environment refuses "
            f"actions, {REFUSED_REMEDY}, or set conversation.retries"
        )
    if config.model.path:
        start = "warm_start: {policy: random}"
    elif config.max_minutes is None:
        start = "a higher pretrain.steps"
    else:
        start = f"longer pretraining: half of max_minutes={config.max_minutes:g} ends it, or pretrain.steps"
    return f"set sampling.constrain: true, or begin with {start}"


def has_signal(group: Group) -> bool:
    """Whether the rewards of a group's valid episodes differ, so that their advantages are not zero."""
    return len(group.valid) > 1 and not group.all_equal
