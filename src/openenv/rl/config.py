"""What a training run is: one YAML file, read into frozen dataclasses that say what each key means."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

AdvantageName = Literal["grpo", "dr_grpo", "rloo", "reinforce++"]
LossName = Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
KLName = Literal["k1", "k2", "k3"]
Precision = Literal["auto", "float32", "bfloat16"]

_CLIP, _GSPO_CLIP = (0.2, 0.28), (3e-4, 4e-4)


class ConfigError(ValueError):
    """A key or value of the YAML file that cannot be used; the message names it and says what would do."""


def _require(holds: bool, key: str, value: object, rule: str) -> None:
    if not holds:
        raise ConfigError(f"{key}={value!r}: {rule}")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Where episodes come from."""

    name: str = "openspiel"
    """The environment's name in the catalogue (`openenv envs` lists them)."""
    server_url: str = ""
    """A running server, such as http://localhost:8004. Empty: one is started for the run and stopped with it."""
    reset: dict[str, Any] = field(default_factory=dict)
    """Keywords of every reset, such as `game_name: blackjack`. The seed is added to them."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that learns."""

    path: str = ""
    """A folder or hub id that transformers can load. Empty: a tiny Qwen3 model is made here, with its own tokenizer."""
    hidden_size: int = 128
    """Width of the tiny model."""
    num_layers: int = 3
    """Depth of the tiny model."""
    num_heads: int = 4
    """Attention heads of the tiny model, of 32 dimensions each; half as many for keys and values."""
    intermediate_size: int = 384
    """Width of the tiny model's feed-forward layers."""
    precision: Precision = "auto"
    """In what the matrix products are computed. auto: bfloat16, but float32 on a processor that has no instructions for
    it, where it would take many times as long. Weights and optimizer stay in float32."""
    instructions: bool = False
    """Whether the rules of the game come first, as a system message. For a model that has read about the world."""

    def __post_init__(self) -> None:
        _require(self.num_heads % 2 == 0, "model.num_heads", self.num_heads, "must be even: two share a key head.")


@dataclass(frozen=True, kw_only=True)
class ReadingConfig:
    """What the tiny model reads before it plays: transcripts of uniformly random legal play, with their outcomes."""

    max_episodes: int = 60_000
    """Games of random play to gather at most."""
    max_decisions: int = 90_000
    """Stop gathering after this many decisions, so that long games cost no more than short ones."""
    steps: int = 600
    """Batches to train on."""
    batch_size: int = 512
    """Transcripts in a batch."""
    lr: float = 3e-3
    """Peak learning rate; warmed up over 50 batches, lowered to a tenth in the second half."""


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """What an episode is worth to the trainer. The game's own return is always reported beside it."""

    win: float = 2.0
    """Reward of an episode whose return is positive."""
    push: float = 0.5
    """Reward of an episode whose return is zero."""
    loss: float = -1.0
    """Reward of an episode whose return is negative."""
    unparseable: float = -1.0
    """Reward of an episode that a reply without a legal action ended."""


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """How a batch becomes a gradient. The formulas are in `openenv.rl.loss`."""

    name: LossName = "dr_grpo"
    """grpo, dr_grpo, dapo, gspo, cispo or rloo."""
    clip_low: float | None = None
    """How far the ratio to the weights before the step may fall below 1. None: 0.2; for gspo, whose ratio is that of a
    whole sequence, 0.0003."""
    clip_high: float | None = None
    """How far that ratio may rise above 1. None: 0.28; for gspo 0.0004."""
    constant_length: float = 1.0
    """Dr. GRPO divides each episode's sum of token losses by this number instead of by its length."""
    kl: KLName = "k3"
    """Estimator of the divergence from the reference model."""
    kl_weight: float = 0.05
    """Weight of that divergence in the first step."""
    kl_weight_end: float = 0.0
    """Its weight at the end of training; in between it falls in a straight line."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus in the first step; it falls to zero in a straight line."""
    importance_cap: float = 2.0
    """Upper limit of the weight exp(lp_old - lp_generator) that corrects stale data."""

    def __post_init__(self) -> None:
        rule = "its gradient is zero on average, so it would hold nothing back. Use k2 or k3."
        _require(self.kl != "k1" or self.kl_weight == self.kl_weight_end == 0, "loss.kl", self.kl, rule)
        _require(self.constant_length > 0, "loss.constant_length", self.constant_length, "must be above 0.")
        _require(self.importance_cap > 0, "loss.importance_cap", self.importance_cap, "must be above 0.")
        for name, limit in (("clip_low", self.clip_low), ("clip_high", self.clip_high)):
            rule = "rloo has no ratio to clip. Leave it out."
            _require(self.name != "rloo" or limit is None, f"loss.{name}", limit, rule)
            _require(limit is None or limit >= 0, f"loss.{name}", limit, "must be 0 or more.")

    @property
    def clip(self) -> tuple[float, float]:
        """How far the ratio may fall below 1 and rise above it."""
        low, high = _GSPO_CLIP if self.name == "gspo" else _CLIP
        return low if self.clip_low is None else self.clip_low, high if self.clip_high is None else self.clip_high


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long to train."""

    steps: int = 300
    """Optimizer steps, one for each batch of groups."""
    max_minutes: float = 60.0
    """Stop after this much training time; the schedules end at whichever limit comes first."""

    def __post_init__(self) -> None:
        _require(self.steps >= 1, "trainer.training.steps", self.steps, "must be at least 1.")
        _require(self.max_minutes > 0, "trainer.training.max_minutes", self.max_minutes, "must be above 0.")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW."""

    lr: float = 5e-4
    """Peak learning rate."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    beta1: float = 0.9
    """Decay of the mean of gradients."""
    beta2: float = 0.99
    """Decay of the mean of squared gradients."""
    warmup_steps: int = 10
    """Steps over which the learning rate rises from zero."""
    decay_from: float = 0.4
    """The part of training after which the learning rate falls in a straight line to zero."""


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """The trainer."""

    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """How fast."""
    max_grad_norm: float = 1.0
    """Gradients longer than this are shortened to it."""
    updates_per_batch: int = 1
    """Optimizer steps on each batch; above 1 the ratio leaves 1 and clipping begins to matter."""
    rows_per_forward: int = 4096
    """Distinct sequences in one forward and backward pass; gradients are summed over passes."""

    def __post_init__(self) -> None:
        for key in ("updates_per_batch", "rows_per_forward"):
            _require(getattr(self, key) >= 1, f"trainer.{key}", getattr(self, key), "must be at least 1.")
        _require(self.max_grad_norm > 0, "trainer.max_grad_norm", self.max_grad_norm, "0 would stop all learning.")


@dataclass(frozen=True, kw_only=True)
class ReplayBufferConfig:
    """What waits between rollouts and the trainer."""

    batch_size: int | None = None
    """Groups in one training step. None: as many as make `batch_decisions` decisions at random play."""
    batch_decisions: int = 1400
    """Decisions in one training step, so that a step costs the same in games of one decision and of ten."""
    max_policy_age: int | None = None
    """Oldest weights, in steps behind the trainer's, whose episodes may be trained on. None: `off_by_n`."""
    drop_equal_groups: bool = False
    """Leave out groups whose rewards are all equal: they carry no gradient but that of the divergence."""


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """What is kept of a run."""

    folder: str = "runs"
    """The run's folder is made in this one, under the run's name."""
    interval: int = 50
    """Steps between checkpoints; one more is written at the end. 0: only that one."""


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How the model is measured before and after training."""

    num_games: int = 20_000
    """Games for each row of the table."""
    sessions: int = 256
    """Games played at the same time."""
    temperature: float = 0.0
    """Sampling temperature of the trained model; 0 takes the likeliest token."""
    seed: int = 1_000_000_000
    """Seed of the first game; training and reading use seeds below the default."""

    def __post_init__(self) -> None:
        _require(self.seed >= 1_000_000_000, "evaluation.seed", self.seed, "games of training are below 1000000000.")
        for key in ("num_games", "sessions"):
            _require(getattr(self, key) >= 1, f"evaluation.{key}", getattr(self, key), "must be at least 1.")
        _require(self.temperature >= 0, "evaluation.temperature", self.temperature, "must be at least 0.")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole run."""

    name: str = "run"
    """The run's name, and that of its folder."""
    seed: int = 0
    """Seed of weights, deals and sampling."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """Where episodes come from. The tutorial's `blackjack_env.server_url` is understood too."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The model; a bare string is its path."""
    group_size: int = 8
    """Episodes that start from one state and are compared with each other."""
    rollout_threads: int = 64
    """Groups played at the same time by each of the two rollout workers."""
    off_by_n: int = 1
    """How many steps old the weights that played an episode may be when it is trained on; 0 is strictly on-policy."""
    max_req_tokens: int = 512
    """Longest prompt; an episode with a longer one is invalid."""
    max_res_tokens: int = 4
    """Longest reply, its end token included."""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """The reading phase of a model made here; a loaded model has read enough."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """What an episode is worth."""
    advantage: AdvantageName = "dr_grpo"
    """How the rewards of a group become advantages: grpo, dr_grpo, rloo or reinforce++."""
    loss: LossConfig = field(default_factory=LossConfig)
    """The policy's loss."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """Steps, optimizer, clipping of gradients."""
    replay_buffer: ReplayBufferConfig = field(default_factory=ReplayBufferConfig)
    """Batches and their age."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """What is kept."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """How the result is measured."""
    threads: int = 1
    """Threads of torch for each of generation and training."""

    def __post_init__(self) -> None:
        size = self.group_size
        _require(size >= 2, "group_size", size, "a group of one has no mean to beat. Use 2 or more.")
        for key in ("rollout_threads", "max_req_tokens", "max_res_tokens", "threads"):
            _require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1.")
        _require(self.off_by_n >= 0, "off_by_n", self.off_by_n, "weights cannot be younger than the trainer's. Use 0.")
        batch = self.replay_buffer.batch_size
        _require(batch is None or batch >= 1, "replay_buffer.batch_size", batch, "must be at least 1.")
        _require(self.max_policy_age >= 0, "replay_buffer.max_policy_age", self.max_policy_age, "must be at least 0.")
        is_folder = bool(self.name) and "/" not in self.name and self.name not in (".", "..")
        _require(is_folder, "name", self.name, "names one folder: no slash, no dots alone, not empty.")

    @property
    def max_policy_age(self) -> int:
        """The oldest usable episode, in training steps."""
        age = self.replay_buffer.max_policy_age
        return self.off_by_n if age is None else age

    @property
    def run_dir(self) -> Path:
        """The folder of this run."""
        return Path(self.checkpoint.folder) / self.name


def load_config(path: str | Path, **changes: Any) -> Config:
    """The run that a YAML file describes. changes: top-level keys to replace, as plain values.

    Raises ConfigError for a key that no one reads (naming the nearest that is read) and for a value of a wrong kind.
    """
    data = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    _require(isinstance(data, dict), str(path), type(data).__name__, "the file must hold a mapping of keys.")
    return config_from_mapping({**data, **changes})


def config_from_mapping(data: Mapping[str, Any]) -> Config:
    """The run that nested mappings describe, with the keys of the YAML file."""
    data = dict(data)
    if "blackjack_env" in data:
        game = {"name": "openspiel", "reset": {"game_name": "blackjack"}}
        data["env"] = {**game, **data.get("env", {}), **data.pop("blackjack_env")}
    if isinstance(data.get("model"), str):
        data["model"] = {"path": data["model"], "instructions": True}
    return typing.cast(Config, _build(Config, data, ""))


def _build(cls: type, data: Mapping[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(cls)
    for key in data:
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(hints)}."
            raise ConfigError(f"{prefix}{key}: no such key; {hint}")
    return cls(**{key: _value(hints[key], value, f"{prefix}{key}") for key, value in data.items()})


def _value(kind: Any, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(kind):
        _require(isinstance(value, Mapping), key, value, "must be a mapping of keys.")
        return _build(typing.cast(type, kind), value, f"{key}.")
    if typing.get_origin(kind) is Literal:
        _require(value in typing.get_args(kind), key, value, f"must be one of {', '.join(typing.get_args(kind))}.")
        return value
    return _plain_value(kind, value, key)


def _plain_value(kind: Any, value: Any, key: str) -> Any:
    if isinstance(kind, types.UnionType):
        return None if value is None else _plain_value(typing.get_args(kind)[0], value, key)
    if kind is str and value is None:
        return ""  # a key left empty in the file
    kind = typing.get_origin(kind) or kind
    if kind is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 3e-4, without a dot, as text
        except ValueError:
            pass
    right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    _require(right, key, value, f"must be of type {kind.__name__}.")
    return value
