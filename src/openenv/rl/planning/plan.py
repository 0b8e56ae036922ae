"""The memory that a run with a loaded model needs, before any weights are read.

Weights, their copies and the optimizer follow from the model's configuration. What a pass needs depends on the prompts:
a few episodes of random play show their lengths, and `ModelOutline` the rest.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from openenv.auto.environment import ServedEnvironment
from openenv.rl.budget import Budget
from openenv.rl.config import Config, ConfigError
from openenv.rl.config_file import require_model
from openenv.rl.engines.launched import number_of_processes
from openenv.rl.environments import serve_environment
from openenv.rl.models.chat import load_tokenizer
from openenv.rl.models.devices import device_of
from openenv.rl.models.shared_prefix import shared_length
from openenv.rl.models.sources.hub_id import require_on_hub
from openenv.rl.planning.memory import resident_bytes, usable_bytes
from openenv.rl.planning.pass_memory import ModelOutline
from openenv.rl.random_play import random_play
from openenv.rl.shown_history import EPISODES_TO_MEASURE, chat_to_measure
from openenv.rl.starting_model import groups_in_batch
from openenv.rl.training.teacher_play import CollectedPlay
from openenv.rl.training.transcripts import chat_messages, have_images

log = logging.getLogger(__name__)

_MOST_TOKENS = {"cpu": 4096, "cuda": 16_384}
"""Passes with more are not faster."""
_LEAST_TOKENS = 256
_LEAST_PROMPTS = 4
_SPARE = 0.9
"""Part of the usable memory that a run takes by itself."""
_LIBRARIES = 280 << 20
"""Kernels and scratch space of the matrix library, beside what is imported. Measured on a processor."""
_REMEDIES = (
    "Lower trainer.tokens_per_forward, sampling.tokens_at_once or groups_in_flight, set model.lora, model.lora with "
    "model.weights: bfloat16, or model.gradient_checkpointing, or use a smaller model."
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that is in memory."""

    name: str
    size_bytes: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """What is in memory at the same time, and how much there is."""

    device: str
    usable_bytes: int | None
    """Bytes that the run may use; None: unknown."""
    num_weights: int
    always: list[Part]
    training: list[Part]
    """Beside it while a step is trained."""
    evaluation: list[Part]
    """Beside it while the trained model is evaluated."""
    tokens_per_forward: int | None = None
    """The value of `trainer.tokens_per_forward` that the plan is for; None: no pass was measured."""
    tokens_at_once: int | None = None
    """That of `sampling.tokens_at_once`; None: all prompts are answered together."""

    @property
    def total_bytes(self) -> int:
        """Most bytes at a time."""
        return size_of(self.always) + max(size_of(self.training), size_of(self.evaluation))

    @property
    def fits(self) -> bool:
        """Whether the memory suffices, as far as it is known."""
        return self.usable_bytes is None or self.total_bytes <= self.usable_bytes

    def require(self) -> None:
        """Raise ConfigError, with what helps, if the run does not fit."""
        if not self.fits:
            assert self.usable_bytes is not None
            phase = max(self.training, self.evaluation, key=size_of)
            most = max((*self.always, *phase), key=lambda part: part.size_bytes)
            raise ConfigError(
                f"model.path: training needs {gigabytes(self.total_bytes)} of memory on {self.device}, and "
                f"{gigabytes(self.usable_bytes)} can be used. The largest part is {most.name}, "
                f"{gigabytes(most.size_bytes)}. {_REMEDIES}"
            )


def size_of(parts: Sequence[Part]) -> int:
    """Bytes of all parts."""
    return sum(part.size_bytes for part in parts)


def gigabytes(size_bytes: int) -> str:
    """A size for a reader."""
    return f"{size_bytes / 1e9:.2f} GB"


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """The sequences of a run, as random play shows them."""

    longest: int
    """Tokens of the longest, with its reply."""
    shared: int
    """Tokens that all begin with."""
    columns: int
    """Different places of sampled tokens."""
    sampled: int
    """Sampled tokens of one sequence."""
    in_batch: int
    """Different sequences of a training step, about."""
    in_flight: int
    """Different prompts that are answered at the same time."""


async def plan_run(config: Config) -> MemoryPlan:
    """The plan of a run with a loaded model. Servers of its environments run meanwhile, for a few episodes.

    Raises ConfigError for a model that there is not, or if `model.path` is empty.
    """
    if not config.model.path:
        raise ConfigError("model.path='': the tiny model fits into 2 GB. A plan is for a pretrained one: use --model.")
    require_model(config.model.path)
    await asyncio.to_thread(require_on_hub, config.model.path)
    async with contextlib.AsyncExitStack() as stack:
        served = [await serve_environment(environment, stack) for environment in config.env]
        played = await random_play(config, served, Budget(None), lambda *_: None)
    return plan_of(config, played, served)


def require_weights_fit(config: Config) -> None:
    """Raise ConfigError if not even weights, gradients and optimizer of a loaded model fit, whatever is played."""
    if config.model.path:
        _plan(config, *_outlines(config)).require()


def with_planned_passes(config: Config, played: Sequence[CollectedPlay], served: Sequence[ServedEnvironment]) -> Config:
    """The configuration with the passes that fit: `trainer.tokens_per_forward` and `sampling.tokens_at_once`.

    Raises ConfigError if none do.
    """
    plan = plan_of(config, played, served)
    plan.require()
    tokens = plan.tokens_per_forward or config.trainer.tokens_per_forward or _MOST_TOKENS["cpu"]
    at_once = plan.tokens_at_once or config.sampling.tokens_at_once
    size = gigabytes(plan.total_bytes)
    log.info("planned: memory=%s tokens_per_forward=%s tokens_at_once=%s", size, tokens, at_once)
    return dataclasses.replace(
        config,
        trainer=dataclasses.replace(config.trainer, tokens_per_forward=tokens),
        sampling=dataclasses.replace(config.sampling, tokens_at_once=at_once),
    )


def plan_of(config: Config, played: Sequence[CollectedPlay], served: Sequence[ServedEnvironment]) -> MemoryPlan:
    """The plan of a run in environments that were played at random, with the most tokens in a pass that fit.

    A model whose passes cannot be measured without weights, and one that is shown images, is planned without them.
    """
    outline, player = _outlines(config)
    begun = _plan(config, outline, player)
    if any(have_images(play.transcripts) for play in played):
        log.warning("the plan leaves out the memory of passes: prompts with images are not measured")
        return begun
    sequences = sequences_of(config, played, served)
    try:
        return _with_passes(config, outline, player, begun, sequences)
    except (NotImplementedError, RuntimeError) as error:  # a model whose shapes depend on values
        log.warning("the plan leaves out the memory of passes: %s", str(error).partition("\n")[0])
        return begun


def sequences_of(config: Config, played: Sequence[CollectedPlay], served: Sequence[ServedEnvironment]) -> Sequences:
    """The sequences of the run's longest environment. Later prompts of a group differ; the first is the same for all.

    A limit of tokens holds for prompts and replies that are longer in random play.
    """
    tokenizer = load_tokenizer(config.model.path)
    prompts: list[tuple[int, ...]] = []
    replies: list[int] = [1]
    for play, environment in zip(played, served, strict=True):
        chat = chat_to_measure(config, environment.text, tokenizer)
        for messages, _ in itertools.islice(play.transcripts, EPISODES_TO_MEASURE):
            prompts.append(chat.prompt(chat_messages(messages[:-1]))[: config.max_req_tokens])
            replies += [len(chat.encode(str(text))) + 1 for role, text in messages if role == "assistant"]
    reply = min(config.max_res_tokens, max(replies)) if config.sampling.constrain else config.max_res_tokens
    lengths = [len(prompt) for prompt in prompts] or [config.max_req_tokens]
    shared = shared_length(prompts, min(lengths) - 1)
    later = max(0.0, max((play.decisions_per_episode for play in played), default=1.0) - 1.0)
    groups = groups_in_batch(config, played)
    of_group = 1 + later * config.group_size if config.sampling.constrain else (1 + later) * config.group_size
    playing = min(config.groups_in_flight, max(1, groups // 2))
    return Sequences(
        longest=max(lengths) + reply,
        shared=shared,
        columns=min(max(lengths) - min(lengths), max(lengths) - shared) + reply,
        sampled=reply,
        in_batch=max(1, round(groups * of_group)),
        in_flight=max(1, round(playing * max(1.0, min(1.0, later) * config.group_size))),
    )


def _outlines(config: Config) -> tuple[ModelOutline, ModelOutline]:
    """The models that are trained and that sample."""
    device = device_of(config.model.device)
    return ModelOutline(config.model, device), ModelOutline(config.model, device, samples=True)


def _plan(config: Config, outline: ModelOutline, player: ModelOutline) -> MemoryPlan:
    """The plan without passes. player: the outline of the generator's model."""
    device = device_of(config.model.device)
    trained, weights = outline.trained_bytes, outline.weight_bytes
    is_processor = device.type == "cpu"
    versions = config.max_policy_age + 1
    held = trained if is_processor else trained // number_of_processes()  # on a processor the others have the rest
    always = [
        Part(
            name="program and libraries",
            size_bytes=(resident_bytes() + _LIBRARIES) * number_of_processes() if is_processor else 0,
        ),
        Part(name="weights", size_bytes=weights, note=config.model.weights),
        Part(name="gradients", size_bytes=held, note="of the trained weights"),
        Part(name="optimizer", size_bytes=2 * held, note="two numbers a trained weight"),
        Part(name="generator's weights", size_bytes=player.trained_bytes, note="frozen weights are shared"),
        Part(name="published versions", size_bytes=versions * trained, note=f"{versions} versions, by off_by_n"),
    ]
    if config.loss.needs_reference and not config.model.lora:
        always.append(Part(name="reference model", size_bytes=weights, note="loss.kl_weight"))
    training = []
    if config.trainer.kl_target is not None:
        training.append(Part(name="weights before a step", size_bytes=trained, note="trainer.kl_target"))
    evaluation = [
        Part(name="evaluated model", size_bytes=weights, note="before or after training"),
        Part(name="last version", size_bytes=trained, note="published at the end"),
    ]
    return MemoryPlan(
        device=str(device),
        usable_bytes=usable_bytes(device),
        num_weights=outline.num_weights,
        always=[part for part in always if part.size_bytes],
        training=training,
        evaluation=evaluation,
    )


def _with_passes(
    config: Config, outline: ModelOutline, player: ModelOutline, begun: MemoryPlan, sequences: Sequences
) -> MemoryPlan:
    """The plan with passes: of as many tokens as the configuration gives, or as fit.

    Passes that are too large are halved, those of training or of sampling, whichever are most at a time.
    """
    device = device_of(config.model.device)
    passes = _Passes(config, outline, player, begun, sequences)
    tokens = config.trainer.tokens_per_forward or _MOST_TOKENS.get(device.type, _MOST_TOKENS["cpu"])
    at_once = config.sampling.tokens_at_once
    while True:
        plan = passes.plan(tokens, at_once)
        if plan.usable_bytes is None or plan.total_bytes <= _SPARE * plan.usable_bytes:
            return plan
        may_shorten = config.trainer.tokens_per_forward is None and tokens > max(_LEAST_TOKENS, sequences.longest)
        together = at_once or passes.most_prompts * sequences.longest
        may_divide = config.sampling.tokens_at_once is None and together > _LEAST_PROMPTS * sequences.longest
        a_pass, sampling = plan.training
        is_sampling = size_of(plan.evaluation) > size_of(plan.training) or sampling.size_bytes > a_pass.size_bytes
        if may_divide and (is_sampling or not may_shorten):
            at_once = together // 2
        elif may_shorten and not is_sampling:
            tokens = max(_LEAST_TOKENS, tokens // 2)
        else:
            return plan


class _Passes:
    """Plans of a run with passes of several lengths."""

    def __init__(
        self, config: Config, outline: ModelOutline, player: ModelOutline, begun: MemoryPlan, sequences: Sequences
    ) -> None:
        self._outline = outline
        self._player = player
        self._begun = begun
        self._sequences = sequences
        self._shape = {"length": sequences.longest, "shared": sequences.shared}
        self._evaluated = min(config.evaluation.sessions, config.evaluation.num_games)
        self.most_prompts = max(self._evaluated, sequences.in_flight)
        """Prompts that may have to be answered together."""

    def plan(self, tokens: int, at_once: int | None) -> MemoryPlan:
        """The plan with `trainer.tokens_per_forward` and `sampling.tokens_at_once`."""
        longest = self._sequences.longest
        rows = max(1, min(tokens // longest, self._sequences.in_batch))
        size = self._outline.training_bytes(
            rows, columns=self._sequences.columns, positions=rows * self._sequences.sampled, **self._shape
        )
        at_once_here = number_of_processes() if self._begun.device == "cpu" else 1
        one = Part(name="a pass", size_bytes=size * at_once_here, note=f"{rows} sequences of {longest} tokens")
        most = self.most_prompts if at_once is None else max(1, at_once // longest)
        # the copy for the budget is made after the pass
        training = [
            max([one], self._begun.training, key=size_of)[0],
            self._sampling(min(most, self._sequences.in_flight)),
        ]
        evaluation = [*self._begun.evaluation, self._sampling(min(most, self._evaluated))]
        return dataclasses.replace(
            self._begun, training=training, evaluation=evaluation, tokens_per_forward=tokens, tokens_at_once=at_once
        )

    def _sampling(self, prompts: int) -> Part:
        size = self._player.sampling_bytes(prompts, **self._shape)
        return Part(name="replies being sampled", size_bytes=size, note=f"{prompts} prompts, keys and values, logits")
