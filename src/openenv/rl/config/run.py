"""A run: its parts, its files, and what it reports and evaluates."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from openenv.rl.config.engine import EngineConfig
from openenv.rl.config.learning import (
    LossConfig,
    PretrainConfig,
    ReplayBufferConfig,
    RewardConfig,
    TrainerConfig,
    WarmStartConfig,
)
from openenv.rl.config.models import GeneratorConfig, ModelConfig
from openenv.rl.config.playing import AgentConfig, ConversationConfig, EnvConfig, SamplingConfig
from openenv.rl.config.rules import require

AdvantageName = Literal["grpo", "dr_grpo", "rloo", "reinforce++"]
OnCollapse = Literal["warn", "stop", "rollback"]
TrackerName = Literal["wandb", "trackio", "tensorboard"]


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
    agent: AgentConfig | None = None
    """An agent's program that plays. A string is its function. None: the model chooses each action by one reply."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The model. A string is its path."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    """Where the work is done. A string is its name."""
    group_size: int = 8
    """Episodes that start from one state and are compared with each other."""
    groups_in_flight: int = 64
    """Groups that each part of a step's groups plays at the same time."""
    off_by_n: int = 1
    """Age, in steps, of the weights that played an episode when it is trained on. 0 is strictly on-policy; with more,
    rollouts and training run at the same time. The first steps of a run, and after a checkpoint, use newer ones. With
    `sampling.partial_rollouts` the age of those that begin an episode, at most."""
    max_req_tokens: int = 512
    """Maximum length of a prompt in tokens. `conversation.out_of_tokens` is what happens to a longer one."""
    max_res_tokens: int = 4
    """Maximum length of a reply in tokens, including its end token."""
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    """What samples the replies."""
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
    watchdog_minutes: float | None = 120.0
    """Minutes after which a run ends in which nothing that anything waits for has arrived. The stacks of all processes
    are then in the folder `stacks` of the run. None: no limit."""

    def __post_init__(self) -> None:
        require(len(self.env) >= 1, "env", self.env, "must have an environment.")
        size = self.group_size
        require(size >= 2, "group_size", size, "a group of one has no mean to compare with. Use 2 or more.")
        for key in ("groups_in_flight", "max_req_tokens", "max_res_tokens", "threads"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1.")
        for key in ("max_minutes", "watchdog_minutes"):
            minutes = getattr(self, key)
            require(minutes is None or 0 < minutes <= 1e7, key, minutes, "must be above 0, and at most 10000000.")
        require(self.off_by_n >= 0, "off_by_n", self.off_by_n, "weights cannot be newer than the trainer's. Use 0.")
        batch = self.replay_buffer.batch_size
        require(batch is None or batch >= 1, "replay_buffer.batch_size", batch, "must be at least 1.")
        rule = "all that one version plays has one age. Set sampling.partial_rollouts, or leave it out."
        in_parts = self.sampling.partial_rollouts or self.replay_buffer.age_of == "group"
        require(in_parts, "replay_buffer.age_of", self.replay_buffer.age_of, rule)
        rule = "with 0 no episode sees an update. Use 1 or more, or leave it out."
        require(self.off_by_n > 0 or not self.sampling.partial_rollouts, "sampling.partial_rollouts", True, rule)
        rule = "has one level, and opponents of one version, for all of a step. Leave sampling.partial_rollouts out."
        for key in ("curriculum", "self_play"):
            is_used = self.sampling.partial_rollouts and any(getattr(env, key) for env in self.env)
            require(not is_used, f"env.{key}", "with partial rollouts", rule)
        require(self.max_policy_age >= 0, "replay_buffer.max_policy_age", self.max_policy_age, "must be at least 0.")
        repeated = len(set(self.report_to)) < len(self.report_to)
        require(not repeated, "report_to", self.report_to, "names a tracker twice.")
        rule = "needs model.path: a tiny model is pretrained (pretrain)."
        require(self.warm_start is None or bool(self.model.path), "warm_start", self.warm_start, rule)
        rule = "with model.lora the reference is the model before the warm start. Set kl_weight and kl_weight_end to 0."
        pulls_back = self.warm_start is not None and self.model.lora is not None and self.loss.needs_reference
        require(not pulls_back, "loss.kl_weight", self.loss.kl_weight, rule)
        rule = "a server that runs already receives adapters. Set model.lora, or leave it out: the run starts a server."
        needs_adapter = bool(self.generator.url) and self.model.lora is None
        require(not needs_adapter, "generator.url", self.generator.url, rule)
        alone, wide = self.generator.is_vllm, self.model.float32_output
        require(
            not (alone and wide), "model.float32_output", wide, "vLLM's output layer does not follow it. Leave it out."
        )
        rule = "vLLM reads other weights from a GGUF file than the trainer. Give a folder."
        is_gguf = self.model.path.lower().endswith(".gguf") and self.model.lora is not None
        require(not (alone and is_gguf), "model.path", self.model.path, rule)
        if self.engine.name == "ray":
            self._require_for_ray()
        if self.agent is not None:
            self._require_for(self.agent)
        require(bool(self.project), "project", self.project, "must be a name.")
        is_folder = bool(self.name) and "/" not in self.name and self.name not in (".", "..")
        require(is_folder, "name", self.name, "must be the name of a folder: not empty, without a slash, not . or ..")

    def _require_for_ray(self) -> None:
        """Raise ConfigError for what the engine on Ray does not have."""
        rule = "is not for engine.name: ray, which has engine.generators, and gives each its GPUs. Leave it out."
        for key, default in (("url", ""), ("replicas", 1), ("gpus", [])):
            value = getattr(self.generator, key)
            require(value == default, f"generator.{key}", value, rule)
        divides = self.engine.generator_gpus > 1
        rule = "is for generator.name: vllm. Leave it out."
        require(self.generator.is_vllm or not divides, "engine.generator_gpus", self.engine.generator_gpus, rule)
        rule = "with engine.name: ray each process has the GPU that Ray gives it. Use auto."
        require(self.model.device in ("auto", "cpu", "cuda"), "model.device", self.model.device, rule)
        rule = "is not for engine.name: ray. Use the embedded engine."
        require(not self.sampling.partial_rollouts, "sampling.partial_rollouts", True, rule)
        rule = "batches would depend on which reply is first. Leave it out for engine.name: ray."
        waits = self.plays_together or self.generator.is_vllm
        require(waits, "sampling.together", self.sampling.together, rule)

    def _require_for(self, agent: AgentConfig) -> None:
        """Raise ConfigError for what episodes of an agent's program do not have."""
        given = bool(agent.function) != bool(agent.command)
        require(given, "agent.function, agent.command", (agent.function, agent.command), "give one of them.")
        is_apart = agent.sandbox is not None
        require(bool(agent.command) or not is_apart, "agent.sandbox", "given", "is for agent.command. Leave it out.")
        rule = "needs a loaded model: the tiny one writes words, which cannot be limited. Set model.path."
        is_limited = agent.tool_choice == "required"
        require(bool(self.model.path) or not is_limited, "agent.tool_choice", agent.tool_choice, rule)
        rule = "is not for agents, which call the model as often as they like. Leave it out."
        require(self.reward.credit == "episode", "reward.credit", self.reward.credit, rule)
        require(not any(env.self_play for env in self.env), "env.self_play", "with an agent", rule)

    @property
    def watchdog_s(self) -> float | None:
        """`watchdog_minutes` in seconds."""
        return None if self.watchdog_minutes is None else 60.0 * self.watchdog_minutes

    @property
    def plays_together(self) -> bool:
        """Whether the episodes of a rollout wait for each other."""
        together = self.sampling.together
        waits_for_none = self.generator.is_vllm or self.sampling.partial_rollouts
        return not waits_for_none if together is None else together

    @property
    def max_policy_age(self) -> int:
        """Most age of what is trained on, in steps: `off_by_n`, or less if the buffer allows less."""
        age = self.replay_buffer.max_policy_age
        return self.off_by_n if age is None else min(age, self.off_by_n)

    @property
    def oldest_is_left_out(self) -> bool:
        """Whether single tokens are left out for their age."""
        return self.sampling.partial_rollouts and self.replay_buffer.age_of == "token"

    @property
    def run_dir(self) -> Path:
        """The folder of the run."""
        return Path(self.checkpoint.folder) / self.name
