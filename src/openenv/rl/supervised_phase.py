"""What a model learns before GRPO: a tiny one from transcripts of random play, a loaded one from a teacher's replies.

The second is a warm start (`warm_start`). What it has learned is written to `warm_start.json` in the run's folder.
"""

import asyncio
import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from openenv.evaluation.episode_files.records import read_episodes
from openenv.formats.json_text import json_text
from openenv.policies.prompts import PromptBuilder
from openenv.policies.registry import EndpointOptions, policy_named
from openenv.rl.algorithm.curricula import level_keywords, shares
from openenv.rl.budget import PRETRAINING_SHARE, RANDOM_PLAY_SHARE, TEACHER_SHARE, Budget
from openenv.rl.config import Config, ConfigError, WarmStartConfig, require
from openenv.rl.environments import session_pool
from openenv.rl.models.chat import Chat
from openenv.rl.progress import OnProgress
from openenv.rl.reports.results import WARM_START, replace_text
from openenv.rl.starting_model import StartingModel, longest_sequence, transcripts_of
from openenv.rl.training.demonstrations import imitate, recorded_play
from openenv.rl.training.pretraining import pretrain
from openenv.rl.training.teacher_play import CollectedPlay, PolicyTeacher, RandomTeacher, Teacher, collect_play
from openenv.text.interface import TextInterface

if TYPE_CHECKING:
    from openenv.rl.engines.training_environment import TrainingEnvironment

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


async def pretrain_on(
    played: Sequence[CollectedPlay], start: StartingModel, config: Config, budget: Budget, on_progress: OnProgress
) -> None:
    """Pretrain a created model on the transcripts of random play alone."""
    transcripts = transcripts_of(played)
    work = partial(
        pretrain,
        start.model,
        Chat(start.tokenizer, image_reader=start.image_reader),
        transcripts,
        config.pretrain,
        precision=config.model.precision,
        seed=config.seed,
        max_length=longest_sequence(config),
        tokens_per_forward=config.trainer.most_tokens,
        is_time_up=lambda: budget.is_spent(PRETRAINING_SHARE),
    )
    losses = await _in_thread(work, "pretrain", config.pretrain.steps, config.threads, on_progress)
    log.info("pretrained: transcripts=%d loss=%.4f", len(transcripts), losses[-1] if losses else math.nan)


def require_teacher(settings: WarmStartConfig) -> None:
    """Raise ConfigError, before anything is loaded, for files that are not there."""
    for name in settings.episodes:
        if not Path(name).is_file():
            raise ConfigError(f"warm_start.episodes: there is no file {name!r}. `openenv eval --save` writes some.")


async def warm_start(
    settings: WarmStartConfig,
    environments: "Sequence[TrainingEnvironment]",
    start: StartingModel,
    config: Config,
    budget: Budget,
    on_progress: OnProgress,
) -> None:
    """Train a loaded model on the replies of a teacher in all environments.

    Raises ConfigError for a teacher that there is not, that cannot play here, or has no episode to learn from.
    """
    if settings.episodes:
        teacher = ", ".join(settings.episodes)
        taught = [(environments[0].chat, await asyncio.to_thread(_recorded, settings, environments))]
    else:
        teacher = settings.policy or RandomTeacher.name
        taught = []
        for number in range(len(environments)):
            play = await _taught(settings, environments, number, teacher, config, budget, on_progress)
            taught.append((environments[number].chat, play))
    work = partial(
        imitate,
        start.model,
        taught,
        settings,
        teacher=teacher,
        precision=config.model.precision,
        seed=config.seed,
        max_length=longest_sequence(config),
        tokens_per_forward=config.trainer.most_tokens,
        is_time_up=lambda: budget.is_spent(PRETRAINING_SHARE),
    )
    learned = await _in_thread(work, "warm start", settings.steps, config.threads, on_progress)
    replace_text(config.run_dir / WARM_START, json_text(asdict(learned), indent=1))
    log.info(
        "warm start: teacher=%s episodes=%d decisions=%d held_out_loss=%.4f before=%.4f",
        teacher, learned.num_episodes, learned.num_decisions, learned.loss_after, learned.loss_before,
    )  # fmt: skip


def _recorded(settings: WarmStartConfig, environments: "Sequence[TrainingEnvironment]") -> CollectedPlay:
    """The play in the files of episodes."""
    require(len(environments) == 1, "warm_start.episodes", settings.episodes, "needs a run of one environment.")
    only = environments[0]
    try:
        episodes = [episode for name in settings.episodes for episode in read_episodes(Path(name))]
        return recorded_play(episodes, min_return=_least(settings), shows_tools=bool(only.chat.tools))
    except (OSError, ValueError) as error:
        raise ConfigError(f"warm_start.episodes={settings.episodes}: {error}") from error


async def _taught(
    settings: WarmStartConfig,
    environments: "Sequence[TrainingEnvironment]",
    number: int,
    teacher: str,
    config: Config,
    budget: Budget,
    on_progress: OnProgress,
) -> CollectedPlay:
    """New play of the teacher in an environment, at all levels. It has a share of the decisions, and of the time."""
    environment, share = environments[number], shares(config.env)[number]
    served, levels = environment.served, level_keywords(environment.config)
    played = CollectedPlay()
    episodes = math.ceil(share * settings.max_episodes / len(levels))
    decisions = math.ceil(share * settings.max_decisions / len(levels))
    for level, keywords in enumerate(levels, start=1):
        prompts = PromptBuilder(
            served.text,
            instructions=config.model.shows_instructions,
            tools=environment.chat.tools,
            history=config.conversation.history,
        )
        done = (number + level / len(levels)) / len(environments)
        deadline = RANDOM_PLAY_SHARE + done * (TEACHER_SHARE - RANDOM_PLAY_SHARE)
        async with session_pool(served, min(config.evaluation.sessions, episodes)) as pool:
            try:
                part = await collect_play(
                    pool,
                    _teacher(teacher, served.text, config),
                    served.text,
                    prompts,
                    reset=keywords,
                    max_episodes=episodes,
                    max_decisions=decisions,
                    min_return=_least(settings),
                    max_turns=config.conversation.max_turns,
                    on_progress=lambda done, total: on_progress("teacher", done, total, {}),
                    is_time_up=partial(budget.is_spent, deadline),
                )
            except ValueError as error:
                raise ConfigError(f"warm_start.policy={teacher!r}: {error}") from error
        played.add(part)
    return played


def _teacher(name: str, text: TextInterface[Any, Any], config: Config) -> Teacher:
    """The teacher of that name. An endpoint is asked without a key: record the episodes of one that needs it."""
    if name == RandomTeacher.name:
        return RandomTeacher(text, config.seed)
    options = EndpointOptions(max_tokens=config.max_res_tokens, temperature=1.0, calls_functions=False)
    return PolicyTeacher(policy_named(name, text, config.seed, options), text)


def _least(settings: WarmStartConfig) -> float:
    return -math.inf if settings.min_return is None else settings.min_return


async def _in_thread(
    work: Callable[..., ResultT], phase: str, total: int, threads: int, on_progress: OnProgress
) -> ResultT:
    """The result of supervised training in a thread that has all cores: nothing else runs meanwhile.

    After Ctrl-C the thread stops at its next batch. threads: torch has so many afterwards.
    """
    cancelled = threading.Event()

    def on_step(done: int, loss: float) -> None:
        if cancelled.is_set():
            raise asyncio.CancelledError
        on_progress(phase, done, total, {"loss": loss})

    with ThreadPoolExecutor(1, "supervised", initializer=_use_all_cores) as thread:
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, partial(work, on_step=on_step))
        finally:
            cancelled.set()
            torch.set_num_threads(threads)


def _use_all_cores() -> None:
    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
