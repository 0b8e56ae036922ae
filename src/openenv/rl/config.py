"""The configuration of a training run: nested frozen dataclasses, with a description of every key.

`openenv.rl.config_file` reads them from YAML.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openenv.core.text_interface import History
from openenv.policies.conversations import OutOfTokens, ReplyRules

AdvantageName = Literal["grpo", "dr_grpo", "rloo", "reinforce++"]
LossName = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
KLName = Literal["k1", "k2", "k3"]
Precision = Literal["auto", "float32", "bfloat16"]
WeightType = Literal["float32", "bfloat16"]
Credit = Literal["episode", "step"]
EqualGroups = Literal["keep", "drop", "redraw"]
OnCollapse = Literal["warn", "stop", "rollback"]
TrackerName = Literal["wandb", "trackio", "tensorboard"]

_TOKENS_PER_FORWARD = 16_384
_CLIP, _GSPO_CLIP = (0.2, 0.28), (3e-4, 4e-4)


class ConfigError(ValueError):
    """A key or value of the configuration is invalid. The message names it and the rule."""


def require(holds: bool, key: str, value: object, rule: str) -> None:
    """Raise ConfigError, with the key, the value and the rule, unless the rule holds."""
    if not holds:
        raise ConfigError(f"{key}={value!r}: {rule}")


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """Levels of difficulty that follow the success rate of training."""

    levels: list[dict[str, Any]] = field(default_factory=list)
    """Keywords of resets at each level, the easiest first. They are added to `reset`."""
    raise_at: float = 0.8
    """Success rate at or above which the next level follows."""
    lower_at: float = 0.2
    """Success rate at or below which the level before follows."""
    episodes: int = 400
    """Episodes at a level after which its success rate is looked at."""
    success_return: float | None = None
    """Return from which an episode is a success. None: episodes that are won."""

    def __post_init__(self) -> None:
        require(len(self.levels) >= 2, "env.curriculum.levels", self.levels, "must have two levels or more.")
        require(self.episodes >= 1, "env.curriculum.episodes", self.episodes, "must be at least 1.")
        rates, rule = (self.lower_at, self.raise_at), "must be rates between 0 and 1, lower_at below raise_at."
        require(0 <= rates[0] < rates[1] <= 1, "env.curriculum.lower_at, raise_at", rates, rule)


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig:
    """An earlier version of the policy plays the other seats. Seats take turns group by group as the trained one."""

    refresh: int = 20
    """Steps after which the opponents become the newest version."""

    def __post_init__(self) -> None:
        require(self.refresh >= 1, "env.self_play.refresh", self.refresh, "must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """An environment of the run."""

    name: str = "openspiel"
    """The environment: a name of `openenv envs`, a folder with openenv.yaml, MODULE:CLASS, FILE.py:CLASS, the URL of a
    server, or docker:IMAGE. A URL is only reached; for all others the run starts and stops a server."""
    server_url: str = ""
    """URL of a running server of the named environment, such as http://localhost:8004."""
    text: str = ""
    """A text interface, MODULE:CLASS or FILE.py:CLASS, that replaces the environment's own."""
    reset: dict[str, Any] = field(default_factory=dict)
    """Keywords of every reset, such as `game_name: blackjack`. The seed is added."""
    weight: float = 1.0
    """Share of the groups that the environment plays, beside the weights of the others."""
    curriculum: CurriculumConfig | None = None
    """Levels of difficulty. The evaluation plays the last one. None: `reset` is the only level."""
    self_play: SelfPlayConfig | None = None
    """Train against earlier versions of the policy, in an environment that lets one session act for every seat
    (`agent_player: all`). The evaluation plays against the opponents of `reset`."""

    def __post_init__(self) -> None:
        require(self.weight > 0, "env.weight", self.weight, "must be above 0. Leave the environment out.")


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """A LoRA adapter: small matrices are trained instead of the weights of a loaded model."""

    rank: int = 16
    """Rank of the matrices."""
    alpha: int = 32
    """The adapter's output is multiplied by alpha / rank."""
    target_modules: list[str] = field(default_factory=list)
    """Names of the layers that have an adapter, such as q_proj. Empty: all linear layers but the output layer."""

    def __post_init__(self) -> None:
        require(self.rank >= 1, "model.lora.rank", self.rank, "must be at least 1.")
        require(self.alpha > 0, "model.lora.alpha", self.alpha, "must be above 0.")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that is trained."""

    path: str = ""
    """A folder or hub id that transformers can load. Empty: a tiny Qwen3 model with its own tokenizer."""
    hidden_size: int = 128
    """Width of the tiny model."""
    num_layers: int = 3
    """Depth of the tiny model."""
    num_heads: int = 4
    """Attention heads of the tiny model, of 32 dimensions each; half as many for keys and values."""
    intermediate_size: int = 384
    """Width of the tiny model's feed-forward layers."""
    precision: Precision = "auto"
    """Precision of the matrix products. auto: bfloat16, but float32 on a processor without bfloat16 instructions, where
    it would be much slower."""
    weights: WeightType = "float32"
    """Type of a loaded model's weights. bfloat16 takes half the memory, but rounds away small updates: use it with
    `lora`, whose own weights stay in float32."""
    device: str = "auto"
    """The device of model and training, such as cuda:1. auto: CUDA where there is one, otherwise the processor."""
    deterministic: bool = True
    """On CUDA, whether sums are added in a fixed order, so that equal seeds give equal metrics. false is faster, and is
    needed for a model with an operation that PyTorch has no such algorithm for: the error names it."""
    gradient_checkpointing: bool = False
    """Whether the backward pass computes activations again instead of keeping them. Less memory, a third more time."""
    lora: LoraSettings | None = None
    """Train an adapter of a loaded model. The reference model is then the same model without the adapter."""
    vllm_url: str = ""
    """URL of a vLLM server with the same model, such as http://localhost:8000, that samples the replies. It receives
    the adapter after each step, so `lora` must be set. Empty: replies are sampled in this process."""
    enable_thinking: bool | None = None
    """Passed to the chat template as `enable_thinking`, by which some models turn their thinking on or off. None: not
    passed."""
    instructions: bool | None = None
    """Whether a system message with the rules of the game comes first. None: for a loaded model (`path`), which can
    read them, and not for a tiny model, which only pays for their tokens."""

    def __post_init__(self) -> None:
        rule = "a vLLM server receives adapters only. Set model.lora."
        require(not self.vllm_url or self.lora is not None, "model.vllm_url", self.vllm_url, rule)
        require(self.num_heads % 2 == 0, "model.num_heads", self.num_heads, "must be even: two heads share a key head.")
        require(
            self.lora is None or bool(self.path),
            "model.lora",
            self.lora,
            "needs model.path: a tiny model is trained whole.",
        )

    @property
    def shows_instructions(self) -> bool:
        """Whether prompts begin with the rules of the game."""
        return bool(self.path) if self.instructions is None else self.instructions


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How replies are drawn."""

    constrain: bool = False
    """Whether a reply is limited to the legal replies, or to the JSON of an action, so that the first one is legal.
    Thinking stays free before its end mark, and so do replies that are free text. true with `model.path`."""
    tokens_at_once: int | None = None
    """Most tokens, of prompts with their replies, whose keys and values the generator holds at the same time. More
    prompts are answered one part after another. None: all for the tiny model, and what fits for a loaded one."""

    def __post_init__(self) -> None:
        most = self.tokens_at_once
        require(most is None or most >= 1, "sampling.tokens_at_once", most, "must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class ConversationConfig:
    """The conversation of an episode between environment and model."""

    history: History | None = None
    """Turns that a prompt shows. full: the whole episode, one context that grows. latest: the newest observation alone.
    None: as the text interface has it."""
    retries: int = 0
    """Further replies to one observation after a reply that names no legal action. The model is shown the problem. 0:
    such a reply ends the episode."""
    max_turns: int = 1000
    """Actions after which an episode is stopped. Its rewards so far count."""
    max_episode_tokens: int | None = None
    """Tokens sampled in an episode after which no reply begins. None: no limit."""
    out_of_tokens: OutOfTokens = "fail"
    """What happens when an episode has max_episode_tokens, or a prompt is longer than max_req_tokens. fail: the episode
    ends as one with an unparseable reply. end: it ends, and its rewards so far count. forget: prompts lose their oldest
    turns until they fit; where that is not enough, as fail."""

    def __post_init__(self) -> None:
        require(self.retries >= 0, "conversation.retries", self.retries, "must be at least 0.")
        require(self.max_turns >= 1, "conversation.max_turns", self.max_turns, "must be at least 1.")
        most = self.max_episode_tokens
        require(most is None or most >= 1, "conversation.max_episode_tokens", most, "must be at least 1.")

    @property
    def rules(self) -> ReplyRules:
        """The rules of replies and tokens."""
        return ReplyRules(
            retries=self.retries, max_episode_tokens=self.max_episode_tokens, out_of_tokens=self.out_of_tokens
        )


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
    """The loss. Its formulas are in `openenv.rl.training.loss`."""

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
    importance_cap: float = 2.0
    """Upper limit of the weight exp(lp_old - lp_generator) that corrects policy loss and divergence for stale data."""

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
        for name, limit in (("clip_low", self.clip_low), ("clip_high", self.clip_high)):
            rule = "rloo has no ratio to clip. Remove it."
            require(self.name != "rloo" or limit is None, f"loss.{name}", limit, rule)
            require(limit is None or limit >= 0, f"loss.{name}", limit, "must be 0 or more.")

    def floor(self, progress: float) -> float:
        """The least entropy of the actions at this fraction of training."""
        return self.entropy_floor + (self.entropy_floor_end - self.entropy_floor) * progress

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
    """Maximum age, in steps, of the weights whose episodes may be trained on. None: `off_by_n`."""
    equal_groups: EqualGroups = "keep"
    """What happens to groups whose rewards are all equal, whose only gradient is that of the divergence. keep: they are
    trained on. drop: they are left out. redraw: others are played instead until the batch is full (DAPO,
    arXiv:2503.14476), but at most four times as many groups as a batch has."""


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """Checkpoints and the run's folder."""

    folder: str = "runs"
    """Parent of the run's folder, which has the run's name."""
    interval: int = 50
    """Steps between checkpoints. A last one is always written at the end; 0 writes only that one."""


@dataclass(frozen=True, kw_only=True)
class TranscriptsConfig:
    """Sample transcripts of training, in `transcripts.jsonl` of the run's folder."""

    interval: int = 10
    """Steps between samples, which begin with the first step. 0 writes none."""
    num_episodes: int = 4
    """Episodes of one group in a sample, the best and the worst among them."""

    def __post_init__(self) -> None:
        require(self.interval >= 0, "transcripts.interval", self.interval, "must be 0 or more. 0 writes none.")
        require(self.num_episodes >= 1, "transcripts.num_episodes", self.num_episodes, "must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The evaluation before and after training, and while the run trains."""

    num_games: int = 20_000
    """Games of each player."""
    sessions: int = 256
    """Games played at the same time."""
    temperature: float = 0.0
    """Sampling temperature of the trained model. 0 takes the most likely token."""
    seed: int = 1_000_000_000
    """Seed of the first game. Training and pretraining use seeds below the default."""
    interval: int = 0
    """Steps between evaluations while the run trains, which also keep the best checkpoint. 0: there are none. 20 with
    `model.path`."""
    interval_games: int = 200
    """Games of such an evaluation: each from a seed of its own, the same ones each time, with the most likely
    replies."""
    pass_k: int = 4
    """Sampled games from each of these seeds, and the k of pass@k: the probability that one of k games is won."""

    def __post_init__(self) -> None:
        require(self.interval >= 0, "evaluation.interval", self.interval, "must be 0 or more. 0: no evaluations.")
        require(self.seed >= 1_000_000_000, "evaluation.seed", self.seed, "training uses the seeds below 1000000000.")
        for key in ("num_games", "sessions", "interval_games", "pass_k"):
            require(getattr(self, key) >= 1, f"evaluation.{key}", getattr(self, key), "must be at least 1.")
        require(self.temperature >= 0, "evaluation.temperature", self.temperature, "must be at least 0.")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of a run."""

    name: str = "run"
    """Name of the run and of its folder."""
    seed: int = 0
    """Seed of weights, deals and sampling."""
    max_minutes: float | None = None
    """Time for random play, pretraining or warm start, the evaluation before training, and training, in minutes. Random
    play takes at most a sixth of it, and has ended together with pretraining after half. The evaluation after training
    is not cut short. Schedules follow the time where it ends before the steps. None: no limit."""
    env: list[EnvConfig] = field(default_factory=lambda: [EnvConfig()])
    """The environment, or a list of several. A string is its name. The tutorial's `blackjack_env.server_url` is
    accepted too."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The model. A string is its path."""
    group_size: int = 8
    """Episodes that start from one state and are compared with each other."""
    groups_in_flight: int = 64
    """Groups that each of the two rollout workers plays at the same time, at most half of a batch."""
    off_by_n: int = 1
    """Age, in steps, of the weights that played an episode when it is trained on. 0 is strictly on-policy; with more,
    rollouts and training run at the same time. The first steps of a run, and after a checkpoint, use newer ones."""
    max_req_tokens: int = 512
    """Maximum length of a prompt in tokens. `conversation.out_of_tokens` is what happens to a longer one."""
    max_res_tokens: int = 4
    """Maximum length of a reply in tokens, including its end token."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """How replies are drawn."""
    conversation: ConversationConfig = field(default_factory=ConversationConfig)
    """The conversation of an episode: what prompts show, retries, limits."""
    warm_start: WarmStartConfig | None = None
    """Supervised training of a loaded model before GRPO. None: there is none."""
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    """Pretraining of the tiny model. A loaded model is not pretrained."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Rewards of episodes."""
    advantage: AdvantageName = "dr_grpo"
    """Estimator of the advantages: grpo, dr_grpo, rloo or reinforce++."""
    loss: LossConfig = field(default_factory=LossConfig)
    """The policy's loss."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """Steps, optimizer, gradient clipping."""
    replay_buffer: ReplayBufferConfig = field(default_factory=ReplayBufferConfig)
    """Batches and their maximum age."""
    on_collapse: OnCollapse = "warn"
    """What happens when the policy collapses: no reply is legal, it takes one action whatever it sees, it tries nothing
    new without having become better, or its steps are too large. warn: a warning names the cause and the setting. stop:
    the run ends with that as its error. rollback: training goes on from the last good weights with half the step."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """Checkpoints."""
    report_to: list[TrackerName] = field(default_factory=list)
    """Trackers that receive the metrics of each step, under TRL's names: wandb, trackio, tensorboard. `metrics.jsonl`
    is always written. A string is a list of one, and `none` an empty one."""
    project: str = "openenv"
    """The project of the run in wandb and trackio, where it has the run's name."""
    transcripts: TranscriptsConfig = field(default_factory=TranscriptsConfig)
    """Sample transcripts."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """Evaluation before, after and during training."""
    threads: int = 1
    """Number of torch threads for generation, and for training."""

    def __post_init__(self) -> None:
        require(len(self.env) >= 1, "env", self.env, "must have an environment.")
        size = self.group_size
        require(size >= 2, "group_size", size, "a group of one has no mean to compare with. Use 2 or more.")
        for key in ("groups_in_flight", "max_req_tokens", "max_res_tokens", "threads"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1.")
        minutes = self.max_minutes
        require(minutes is None or minutes > 0, "max_minutes", minutes, "must be above 0.")
        require(self.off_by_n >= 0, "off_by_n", self.off_by_n, "weights cannot be newer than the trainer's. Use 0.")
        batch = self.replay_buffer.batch_size
        require(batch is None or batch >= 1, "replay_buffer.batch_size", batch, "must be at least 1.")
        require(self.max_policy_age >= 0, "replay_buffer.max_policy_age", self.max_policy_age, "must be at least 0.")
        repeated = len(set(self.report_to)) < len(self.report_to)
        require(not repeated, "report_to", self.report_to, "names a tracker twice.")
        rule = "needs model.path: a tiny model is pretrained (pretrain)."
        require(self.warm_start is None or bool(self.model.path), "warm_start", self.warm_start, rule)
        rule = "with model.lora the reference is the model before the warm start. Set kl_weight and kl_weight_end to 0."
        pulls_back = self.warm_start is not None and self.model.lora is not None and self.loss.needs_reference
        require(not pulls_back, "loss.kl_weight", self.loss.kl_weight, rule)
        plays_itself = any(env.self_play for env in self.env)
        rule = "the opponents need the run's own generator. Leave model.vllm_url empty."
        require(not (plays_itself and self.model.vllm_url), "env.self_play", plays_itself, rule)
        require(bool(self.project), "project", self.project, "must be a name.")
        is_folder = bool(self.name) and "/" not in self.name and self.name not in (".", "..")
        require(is_folder, "name", self.name, "must be the name of a folder: not empty, without a slash, not . or ..")

    @property
    def max_policy_age(self) -> int:
        """Age of an episode when it is trained on, in steps: `off_by_n`, or less if the buffer allows less."""
        age = self.replay_buffer.max_policy_age
        return self.off_by_n if age is None else min(age, self.off_by_n)

    @property
    def run_dir(self) -> Path:
        """The folder of the run."""
        return Path(self.checkpoint.folder) / self.name
