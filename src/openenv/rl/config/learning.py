"""How the model learns: supervised training before GRPO, rewards, loss, trainer and replay buffer."""

from dataclasses import dataclass, field
from typing import Literal

from openenv.rl.config.rules import require

LossName = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
KLName = Literal["k1", "k2", "k3"]
ImportanceLevel = Literal["token", "sequence"]
Credit = Literal["episode", "step"]
EqualGroups = Literal["keep", "drop", "redraw"]
AgeOf = Literal["group", "episode", "token"]

_TOKENS_PER_FORWARD = 16_384
_CLIP, _GSPO_CLIP = (0.2, 0.28), (3e-4, 4e-4)


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Pretraining of the tiny model on transcripts of uniformly random legal play, with their outcomes."""

    max_episodes: int = 60_000
    """Maximum number of games of random play to collect."""
    max_decisions: int = 90_000
    """Stop collecting after this many decisions, so that long games cost no more than short ones."""
    steps: int = 600
    """Number of batches."""
    batch_size: int = 512
    """Number of decisions in a batch. Where prompts show the whole episode, a transcript has several."""
    lr: float = 3e-3
    """Peak learning rate. It is warmed up over 50 batches and falls to a tenth in the second half."""


@dataclass(frozen=True, kw_only=True)
class WarmStartConfig:
    """Supervised training of a loaded model on the replies of a teacher, before GRPO."""

    policy: str = ""
    """The teacher, which plays new episodes: a policy of `openenv eval`, such as random, chart, mcts, always:stand or
    llm:MODEL@URL, which is asked without a key. Empty: random, if there are no `episodes`."""
    episodes: list[str] = field(default_factory=list)
    """Files of recorded episodes instead, as `openenv eval --save` writes them. They are learned with the messages that
    they were recorded with."""
    min_return: float | None = None
    """Least return of the episodes that are learned from. None: all."""
    outcomes: bool = False
    """Whether the outcome of an episode is learned too, after its replies and before them, so that replies depend on
    what the model has seen."""
    max_episodes: int = 2000
    """Most episodes that the teacher plays."""
    max_decisions: int = 2000
    """Decisions after which it begins no further episode."""
    steps: int = 100
    """Number of batches."""
    batch_size: int = 32
    """Number of decisions in a batch."""
    lr: float | None = None
    """Peak learning rate. None: 3e-5, with `model.lora` 2e-4."""

    def __post_init__(self) -> None:
        rule = "warm_start.episodes have a teacher already. Leave one of them out."
        require(not (self.policy and self.episodes), "warm_start.policy", self.policy, rule)
        for key in ("max_episodes", "max_decisions", "steps", "batch_size"):
            require(getattr(self, key) >= 1, f"warm_start.{key}", getattr(self, key), "must be at least 1.")
        require(self.lr is None or self.lr > 0, "warm_start.lr", self.lr, "must be above 0.")


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Rewards of episodes: the environment's own, or with `win`, `push` and `loss` one number for each outcome.

    The return of the environment is always reported too.
    """

    discount: float = 1.0
    """Factor for each turn that lies between a reward and the action that it is credited to, above 0 and at most 1."""
    credit: Credit = "episode"
    """episode: all actions of an episode have one advantage, from its return. step: the advantage of each action is
    from the rewards after it, compared with those of the group's other episodes after the same number of turns."""
    scale: float | Literal["auto"] = "auto"
    """Factor of the environment's rewards. auto: 1 / the standard deviation of returns in random play, so that weights
    and limits mean the same in every environment. It does not apply to win, push and loss."""
    clip: tuple[float, float] | None = None
    """Lower and upper limit of an episode's reward, after scaling."""
    unparseable: float | None = None
    """Reward of an episode that a reply without a legal action ended. None: the worst return in random play, scaled;
    with win, push and loss the lowest of these."""
    retry_penalty: float = 0.0
    """Subtracted from an episode's reward for each reply that was followed by a retry (`conversation.retries`)."""
    win: float | None = None
    """Reward of an episode whose return is positive. It comes together with `push` and `loss`."""
    push: float | None = None
    """Reward of an episode whose return is zero."""
    loss: float | None = None
    """Reward of an episode whose return is negative."""

    def __post_init__(self) -> None:
        require(0 < self.discount <= 1, "reward.discount", self.discount, "must be above 0 and at most 1.")
        require(self.scale == "auto" or self.scale > 0, "reward.scale", self.scale, "must be above 0, or auto.")
        limits = self.clip
        require(limits is None or limits[0] < limits[1], "reward.clip", limits, "must be [lowest, highest].")
        require(self.retry_penalty >= 0, "reward.retry_penalty", self.retry_penalty, "is subtracted. Use 0 or more.")
        given = {name: getattr(self, name) for name in ("win", "push", "loss") if getattr(self, name) is not None}
        rule = "win, push and loss come together: give all three, or none for the environment's own rewards."
        require(len(given) in (0, 3), "reward", given, rule)

    @property
    def by_outcome(self) -> tuple[float, float, float] | None:
        """Rewards of a win, a push and a loss; None: the environment's own rewards count."""
        if self.win is None or self.push is None or self.loss is None:
            return None
        return self.win, self.push, self.loss


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss. Its formulas are in `openenv.rl.algorithm.loss`."""

    name: LossName = "dr_grpo"
    """grpo, dr_grpo, dapo, gspo, cispo or rloo."""
    clip_low: float | None = None
    """How far the ratio to the weights before the step may fall below 1. None: 0.2; for gspo, which has one ratio for a
    whole sequence, 0.0003."""
    clip_high: float | None = None
    """How far that ratio may rise above 1. None: 0.28; for gspo 0.0004."""
    constant_length: float = 1.0
    """Dr. GRPO divides each episode's sum of token losses by this number instead of by its length."""
    kl: KLName = "k3"
    """Estimator of the divergence from the reference model. Its gradient is that of KL(policy, reference) with k2, and
    that of KL(reference, policy) with k3."""
    kl_weight: float = 0.05
    """Weight of that divergence in the first step."""
    kl_weight_end: float = 0.0
    """Its weight at the end of training; in between it falls in a straight line."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus in the first step; it falls to zero in a straight line. With a reference model, that
    is with `kl_weight`, a token's entropy counts up to the reference's there: the policy shall try other actions where
    the reference would, and write nothing after them."""
    importance_level: ImportanceLevel = "token"
    """Whose ratio exp(lp_old - lp_generator) is the weight that corrects policy loss and divergence where trainer and
    generator disagree: that of each `token`, or the product over all tokens of its `sequence`."""
    importance_cap: float = 2.0
    """Upper limit of that weight."""
    mask_tokens: tuple[float, float] | None = None
    """Leave out the tokens whose own ratio is outside [lowest, highest]. None: none."""
    mask_sequences: tuple[float, float] | None = None
    """Leave out the sequences whose ratios have a geometric mean outside [lowest, highest]. None: none."""
    entropy_floor: float = 0.0
    """Least entropy of the actions at the beginning, as a part of that before the first step, 0 to 1. It is held where
    replies are constrained (`sampling.constrain`) and named by few tokens, and where steps have a budget
    (`trainer.kl_target`): by a bonus whose weight follows the distance, and by shorter steps."""
    entropy_floor_end: float = 0.0
    """The floor at the end of training; in between it falls in a straight line."""

    def __post_init__(self) -> None:
        for name in ("entropy_floor", "entropy_floor_end"):
            require(0 <= getattr(self, name) < 1, f"loss.{name}", getattr(self, name), "must be from 0 to below 1.")
        rule = "its gradient is zero on average, so it has no effect. Use k2 or k3."
        require(self.kl != "k1" or self.kl_weight == self.kl_weight_end == 0, "loss.kl", self.kl, rule)
        require(self.constant_length > 0, "loss.constant_length", self.constant_length, "must be above 0.")
        require(self.importance_cap > 0, "loss.importance_cap", self.importance_cap, "must be above 0.")
        for name in ("mask_tokens", "mask_sequences"):
            limits = getattr(self, name)
            rule = "must be [lowest, highest] with 1 between them, the ratio of what both agree about."
            require(limits is None or 0 <= limits[0] < 1 < limits[1], f"loss.{name}", limits, rule)
        for name, limit in (("clip_low", self.clip_low), ("clip_high", self.clip_high)):
            rule = "rloo has no ratio to clip. Remove it."
            require(self.name != "rloo" or limit is None, f"loss.{name}", limit, rule)
            require(limit is None or limit >= 0, f"loss.{name}", limit, "must be 0 or more.")

    @property
    def needs_reference(self) -> bool:
        """Whether the divergence from the reference model has a weight in any step."""
        return bool(self.kl_weight or self.kl_weight_end)

    @property
    def clip(self) -> tuple[float, float]:
        """How far the ratio may fall below 1 and rise above 1."""
        low, high = _GSPO_CLIP if self.name == "gspo" else _CLIP
        return low if self.clip_low is None else self.clip_low, high if self.clip_high is None else self.clip_high


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Length of the training."""

    steps: int = 300
    """Optimizer steps, one for each batch of groups. The schedules follow them."""
    patience: int = 25
    """Steps in a row without a group whose episodes differ in reward, after which a warning says why there is nothing
    to learn. After twice as many training ends: with an error if no step had such a group, otherwise early."""

    def __post_init__(self) -> None:
        for key in ("steps", "patience"):
            require(getattr(self, key) >= 1, f"trainer.training.{key}", getattr(self, key), "must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer, AdamW."""

    lr: float = 5e-4
    """Peak learning rate."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    beta1: float = 0.9
    """Decay rate of the mean of the gradients."""
    beta2: float = 0.99
    """Decay rate of the mean of the squared gradients."""
    warmup_steps: int = 10
    """Steps over which the learning rate rises from zero."""
    decay_from: float = 0.4
    """Fraction of training after which the learning rate falls in a straight line to zero."""


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """The trainer."""

    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Length of the training."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimizer."""
    kl_target: float | None = None
    """Budget of a step: KL(policy before it, policy after it) on its own tokens, in nats a token that had a choice. A
    longer step is shortened, and the learning rate follows; `optimizer.lr` is where it begins. It falls late in
    training with the square of the learning rate's schedule. None: steps follow the learning rate alone."""
    max_grad_norm: float = 1.0
    """Gradients with a larger norm are scaled down to this norm."""
    updates_per_batch: int = 1
    """Optimizer steps on each batch. With more than 1 the ratio differs from 1, and clipping has an effect."""
    tokens_per_forward: int | None = None
    """Most tokens in one forward and backward pass, padding included. Gradients are summed over passes. A sequence that
    is longer is run alone. None: 16,384 for the tiny model, and what fits into memory for a loaded one."""

    def __post_init__(self) -> None:
        for key in ("updates_per_batch", "tokens_per_forward"):
            value = getattr(self, key)
            require(value is None or value >= 1, f"trainer.{key}", value, "must be at least 1.")
        target = self.kl_target
        require(target is None or target > 0, "trainer.kl_target", target, "must be above 0, or null for no budget.")
        require(self.max_grad_norm > 0, "trainer.max_grad_norm", self.max_grad_norm, "0 would prevent learning.")

    @property
    def most_tokens(self) -> int:
        """Most tokens in one pass, where no plan has replaced the default."""
        return self.tokens_per_forward or _TOKENS_PER_FORWARD


@dataclass(frozen=True, kw_only=True)
class ReplayBufferConfig:
    """The replay buffer between rollouts and trainer."""

    batch_size: int | None = None
    """Groups in one training step. None: as many as have `batch_decisions` decisions in random play."""
    batch_decisions: int = 1400
    """Decisions in one training step, so that a step costs the same in games of one decision and of ten."""
    max_policy_age: int | None = None
    """Maximum age, in steps, of the weights whose tokens may be trained on. None: `off_by_n`."""
    age_of: AgeOf = "group"
    """What is left out, with `sampling.partial_rollouts`, where a token is older than that. group: its group. episode:
    its episode. token: the token alone; the others keep the episode's advantage."""
    equal_groups: EqualGroups = "keep"
    """What happens to groups whose rewards are all equal, whose only gradient is that of the divergence. keep: they are
    trained on. drop: they are left out. redraw: others are played instead until the batch is full (DAPO,
    arXiv:2503.14476), but at most four times as many groups as a batch has."""
