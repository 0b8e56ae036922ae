"""Collects random play of the run's environments, for pretraining and to measure returns and lengths of episodes.

It also shows whether whole episodes fit into prompts, where a text interface leaves open what a prompt shows.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from openenv.auto.environment import ServedEnvironment
from openenv.core.session_pool import SessionPool
from openenv.policies.prompts import PromptBuilder
from openenv.rl.algorithm.curricula import level_keywords, shares
from openenv.rl.algorithm.learning_signal import NothingToLearn
from openenv.rl.budget import RANDOM_PLAY_SHARE, Budget
from openenv.rl.config import Config, EnvConfig
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.language_model import load_tokenizer
from openenv.rl.progress import OnProgress
from openenv.rl.training.teacher_play import CollectedPlay, RandomTeacher, collect_play
from openenv.rl.training.transcripts import chat_messages, have_images, transcript_words
from openenv.text.interface import History

log = logging.getLogger(__name__)

EPISODES_TO_MEASURE = 64
"""Episodes of random play where nothing is pretrained on them."""


async def random_play(
    config: Config, served: Sequence[ServedEnvironment], budget: Budget, on_progress: OnProgress
) -> list[CollectedPlay]:
    """Collect random play of each environment: for pretraining, and to measure returns and lengths of episodes.

    An environment has its share of the decisions, divided among the levels of its curriculum. A text interface without
    a `history` gets one.
    """
    for environment, settings in zip(served, config.env, strict=True):
        if environment.text.history is None and config.conversation.history is None:
            environment.text.history = await _fitting_history(environment, settings, config, budget)
    collected: list[CollectedPlay] = []
    most = config.pretrain.max_decisions
    for share, environment, settings in zip(shares(config.env), served, config.env, strict=True):
        play, levels = CollectedPlay(), level_keywords(settings)
        for number, keywords in enumerate(levels, start=1):
            earlier = sum(one.num_decisions for one in (*collected, play))
            budget_share = RANDOM_PLAY_SHARE * (len(collected) + number / len(levels)) / len(served)
            part = share / len(levels)
            play.add(
                await _random_play_of(
                    environment,
                    config,
                    keywords,
                    EPISODES_TO_MEASURE if config.model.path else math.ceil(part * config.pretrain.max_episodes),
                    math.ceil(part * most),
                    partial(_report, on_progress, earlier, most),
                    partial(budget.is_spent, budget_share),
                )
            )
        collected.append(play)
        if play.acts_for_all and settings.self_play is None:
            log.warning(
                "env.name=%s: the model acts for several seats of a game, and the rewards of all count as one return: "
                "it wins against itself. Set env.self_play, or in env.reset a seat to play against opponents.",
                settings.name,
            )
    return collected


def require_signal(played: Sequence[CollectedPlay], config: Config) -> None:
    """Raise NothingToLearn if the returns of random play are all equal, which is all that a created model sees first.

    A pretrained model may do better than random play, so this is a warning there.
    """
    returns = {value for one in played for value in one.returns}
    number = sum(sum(one.returns.values()) for one in played)
    if len(returns) > 1 or number < EPISODES_TO_MEASURE:
        return
    if not any(one.num_rewards for one in played):
        raise NothingToLearn(
            f"no step of {number} episodes of random play had a reward: return one from step(), or pass a reward to "
            "`openenv.rl.run.train`"
        )
    reason = (
        f"all {number} returns of random play are {next(iter(returns)):g}: let the environment reward progress, or "
        "make its task easier at first (env.curriculum)"
    )
    if not config.model.path:
        raise NothingToLearn(f"{reason}, or begin with a pretrained model (model.path).")
    log.warning("%s.", reason)


def _report(on_progress: OnProgress, earlier: int, most: int, done: int) -> None:
    on_progress("random play", min(most, earlier + done), most, {})


async def _fitting_history(served: ServedEnvironment, settings: EnvConfig, config: Config, budget: Budget) -> History:
    """The newest observation alone if most whole episodes of random play are longer than a prompt may be."""
    play = await _random_play_of(
        served,
        config,
        level_keywords(settings)[-1],
        EPISODES_TO_MEASURE,
        config.pretrain.max_decisions,
        lambda _: None,
        partial(budget.is_spent, RANDOM_PLAY_SHARE / len(config.env)),
    )
    if have_images(play.transcripts):
        return "full"
    path = config.model.path
    chat = Chat(load_tokenizer(path) if path else word_tokenizer(transcript_words(play.transcripts)))
    lasts = [len(chat.prompt(chat_messages(messages[:-1]))) for messages, _ in play.transcripts.elements()]
    too_long = sum(length > config.max_req_tokens for length in lasts)
    if 2 * too_long <= len(lasts):
        return "full"
    log.warning(
        "env.name=%s: %d of %d episodes of random play have up to %d tokens, more than max_req_tokens=%d: each prompt "
        "shows the newest observation alone. If that does not say all that matters, set conversation.history to full "
        "and raise max_req_tokens, or set conversation.out_of_tokens to forget.",
        settings.name, too_long, len(lasts), max(lasts), config.max_req_tokens,
    )  # fmt: skip
    return "latest"


async def _random_play_of(
    served: ServedEnvironment,
    config: Config,
    keywords: Mapping[str, Any],
    max_episodes: int,
    max_decisions: int,
    on_decisions: Callable[[int], None],
    is_time_up: Callable[[], bool],
) -> CollectedPlay:
    """Random play of one environment at one level."""
    prompts = PromptBuilder(
        served.text, instructions=config.model.shows_instructions, history=config.conversation.history
    )
    async with SessionPool(served.client, served.base_url, min(config.evaluation.sessions, max_episodes)) as pool:
        return await collect_play(
            pool,
            RandomTeacher(served.text, config.seed),
            served.text,
            prompts,
            reset=keywords,
            max_episodes=max_episodes,
            max_decisions=max_decisions,
            max_turns=config.conversation.max_turns,
            on_progress=lambda done, _: on_decisions(done),
            is_time_up=is_time_up,
        )
