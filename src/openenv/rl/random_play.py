"""Collects random play of the run's environments, for pretraining and to measure returns and lengths of episodes."""

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
from openenv.rl.config import Config
from openenv.rl.progress import OnProgress
from openenv.rl.training.teacher_play import CollectedPlay, RandomTeacher, collect_play

log = logging.getLogger(__name__)

EPISODES_TO_MEASURE = 64
"""Episodes of random play where nothing is pretrained on them."""


async def random_play(
    config: Config, served: Sequence[ServedEnvironment], budget: Budget, on_progress: OnProgress
) -> list[CollectedPlay]:
    """Collect random play of each environment: for pretraining, and to measure returns and lengths of episodes.

    An environment has its share of the decisions, divided among the levels of its curriculum.
    """
    collected: list[CollectedPlay] = []
    most = config.pretrain.max_decisions
    for share, environment, settings in zip(shares(config.env), served, config.env, strict=True):
        play, levels = CollectedPlay(), level_keywords(settings)
        for number, keywords in enumerate(levels, start=1):
            earlier = sum(one.num_decisions for one in (*collected, play))
            budget_share = RANDOM_PLAY_SHARE * (len(collected) + number / len(levels)) / len(served)
            play.add(
                await _random_play_of(
                    environment,
                    config,
                    share / len(levels),
                    keywords,
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


async def _random_play_of(
    served: ServedEnvironment,
    config: Config,
    share: float,
    keywords: Mapping[str, Any],
    on_decisions: Callable[[int], None],
    is_time_up: Callable[[], bool],
) -> CollectedPlay:
    """Random play of one environment at one level. share: its fraction of all decisions and episodes."""
    pretrain = config.pretrain
    episodes = EPISODES_TO_MEASURE if config.model.path else math.ceil(share * pretrain.max_episodes)
    decisions = math.ceil(share * pretrain.max_decisions)
    prompts = PromptBuilder(
        served.text, instructions=config.model.shows_instructions, history=config.conversation.history
    )
    async with SessionPool(served.client, served.base_url, min(config.evaluation.sessions, episodes)) as pool:
        return await collect_play(
            pool,
            RandomTeacher(served.text, config.seed),
            served.text,
            prompts,
            reset=keywords,
            max_episodes=episodes,
            max_decisions=decisions,
            max_turns=config.conversation.max_turns,
            on_progress=lambda done, _: on_decisions(done),
            is_time_up=is_time_up,
        )
