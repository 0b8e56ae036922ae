"""Collects random play of the run's environments, for pretraining and to measure returns and lengths of episodes."""

import asyncio
import logging
import math
from collections.abc import Sequence
from functools import partial

from openenv.auto.environment import ServedEnvironment
from openenv.policies.prompts import PromptBuilder
from openenv.rl.agents.random_play import agent_random_play
from openenv.rl.algorithm.curricula import level_keywords, shares
from openenv.rl.algorithm.learning_signal import NothingToLearn
from openenv.rl.budget import RANDOM_PLAY_SHARE, Budget
from openenv.rl.config import Config
from openenv.rl.environments import session_pool
from openenv.rl.progress import OnProgress
from openenv.rl.shown_history import EPISODES_TO_MEASURE, fitting_history, is_open
from openenv.rl.training.teacher_play import CollectedPlay, RandomTeacher, collect_play

log = logging.getLogger(__name__)


async def random_play(
    config: Config, served: Sequence[ServedEnvironment], budget: Budget, on_progress: OnProgress
) -> list[CollectedPlay]:
    """Collect random play of each environment: for pretraining, and to measure returns and lengths of episodes.

    A text interface that leaves open what prompts show has a `history` afterwards. Where that is the newest observation
    alone, the environment is played again.
    """
    collected: list[CollectedPlay] = []
    for number, (environment, settings) in enumerate(zip(served, config.env, strict=True)):
        text = environment.text
        is_undecided = config.agent is None and is_open(config, text)
        play = await _random_play(config, environment, number, collected, budget, on_progress)
        if is_undecided:
            text.history = await asyncio.to_thread(fitting_history, config, settings.name, text, play)
            if text.history == "latest":
                play = await _random_play(config, environment, number, collected, budget, on_progress, tries=2)
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


async def _random_play(
    config: Config,
    served: ServedEnvironment,
    environment: int,
    earlier: Sequence[CollectedPlay],
    budget: Budget,
    on_progress: OnProgress,
    *,
    tries: int = 1,
) -> CollectedPlay:
    """Random play of one environment: its share of the decisions, divided among the levels of its curriculum.

    Args:
        config: that of the run.
        served: the environment.
        environment: its number.
        earlier: the play of those before it.
        budget: of which each try of an environment has its part.
        on_progress: receives the decisions so far.
        tries: how often it is played with this one.
    """
    settings, play = config.env[environment], CollectedPlay()
    levels, most = level_keywords(settings), config.pretrain.max_decisions
    part = shares(config.env)[environment] / len(levels)
    episodes = EPISODES_TO_MEASURE if config.model.path else math.ceil(part * config.pretrain.max_episodes)
    prompts = PromptBuilder(
        served.text, instructions=config.model.shows_instructions, history=config.conversation.history
    )
    for number, keywords in enumerate(levels, start=1):
        done = sum(one.num_decisions for one in (*earlier, play))
        time_share = RANDOM_PLAY_SHARE * (environment + tries - 1 + number / len(levels)) / len(config.env)
        report, is_time_up = partial(_report, on_progress, done, most), partial(budget.is_spent, time_share)
        async with session_pool(served, min(config.evaluation.sessions, episodes)) as pool:
            direct = partial(
                collect_play,
                pool,
                RandomTeacher(served.text, config.seed),
                served.text,
                prompts,
                reset=keywords,
                max_episodes=episodes,
                max_decisions=math.ceil(part * most),
                max_turns=config.conversation.max_turns,
                on_progress=report,
                is_time_up=is_time_up,
            )
            if config.agent is None:
                play.add(await direct())
                continue
            on_episode = partial(_report, on_progress, 0, config.agent.random_episodes)
            through_agent = await agent_random_play(config, served.text, pool, keywords, on_episode, is_time_up)
            if not config.model.path:
                _mix(through_agent, await direct())
            play.add(through_agent)
    return play


def _mix(through_agent: CollectedPlay, direct: CollectedPlay) -> None:
    """Add direct play to that through an agent, which is slow: both have about the same share of the transcripts."""
    known = through_agent.transcripts
    times = max(1, round(direct.transcripts.total() / max(1, known.total())))
    for transcript in known:
        known[transcript] *= times
    known.update(direct.transcripts)


def _report(on_progress: OnProgress, earlier: int, most: int, done: int, _: int) -> None:
    on_progress("random play", min(most, earlier + done), most, {})
