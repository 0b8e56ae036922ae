"""The games of an evaluation: each environment at its last level, with the model under the rules of its training."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from openenv.agents.llm.http import LLMError
from openenv.evaluation import play_episodes
from openenv.evaluation.episodes import EpisodeSessions
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import OnEpisodes
from openenv.policies import LanguageModelPolicy
from openenv.rl.algorithm.curricula import level_keywords
from openenv.rl.config import Config, EnvConfig
from openenv.rl.engines.protocol import MOST_ENDS, Recovering

if TYPE_CHECKING:
    from openenv.rl.engines.training_environment import TrainingEnvironment
    from openenv.rl.generators.base import BaseGenerator

log = logging.getLogger(__name__)

_T = TypeVar("_T")


def evaluation_keywords(config: EnvConfig) -> Mapping[str, Any]:
    """Keywords of an evaluation's resets: those of the last level of a curriculum."""
    return level_keywords(config)[-1]


@dataclass(frozen=True)
class AgentPolicy:
    """The run's agent, with a generator's model."""

    generator: "BaseGenerator"


def model_policy(
    config: Config, environment: "TrainingEnvironment", generator: "BaseGenerator"
) -> LanguageModelPolicy | AgentPolicy:
    """The policy of a generator's model in an environment, with the prompts and limits of the run; or its agent."""
    if config.agent is not None:
        return AgentPolicy(generator)
    return LanguageModelPolicy(
        "model",
        environment.served.text,
        partial(generator.complete, chat=environment.chat),
        constrains=config.sampling.constrain,
        instructions=config.model.shows_instructions,
        tools=environment.chat.tools,
        history=config.conversation.history,
        rules=config.conversation.rules,
        fits=environment.chat.fits(config.max_req_tokens),
    )


async def play_games(
    pool: EpisodeSessions,
    policy: Any,
    num_games: int,
    seed: int,
    *,
    config: Config,
    environment: "TrainingEnvironment",
    on_progress: OnEpisodes | None = None,
    executor: Executor | None = None,
    recovering: Recovering,
) -> list[EpisodeResult]:
    """Games of a policy in an environment of the run, as `openenv.evaluation.play_episodes`.

    Invalid ones are played again, with their seeds, where the generator had ended and was started again.

    Args:
        pool: Sessions of the environment.
        policy: Chooses the actions.
        num_games: Number of games.
        seed: Seed of the first game; the others follow it.
        config: That of the run.
        environment: The environment.
        on_progress: Called with the number of games that have ended, and `num_games`.
        executor: Runs the model; None: any thread.
        recovering: Starts the generator again.
    """
    valid: dict[int, EpisodeResult] = {}

    async def play() -> list[EpisodeResult]:
        if isinstance(policy, AgentPolicy):
            from openenv.rl.agents.rollout import evaluated  # torch: the command does without it until a run begins
            from openenv.rl.engines.training_environment import agent_episodes  # likewise

            with contextlib.ExitStack() as stack:
                thread = executor or stack.enter_context(ThreadPoolExecutor(1, "generator"))
                episodes = agent_episodes(config, environment, policy.generator, thread)
                keywords = evaluation_keywords(environment.config)
                return await evaluated(episodes, pool, num_games, seed, keywords, on_progress)
        return await play_episodes(
            pool,
            policy,
            num_games,
            seed,
            reset_kwargs=evaluation_keywords(environment.config),
            text=environment.served.text,
            max_steps=config.conversation.max_turns,
            known=valid,
            on_progress=on_progress,
            executor=executor,
        )

    for num_ends in range(1, MOST_ENDS + 1):
        known, can_recover = recovering.num_recoveries, num_ends < MOST_ENDS
        try:
            games = await play()
        except LLMError:
            if can_recover and await recovering.recovered(known):
                continue
            raise
        valid = {number: game for number, game in enumerate(games) if game.outcome != "invalid"}
        if len(valid) == num_games or not (can_recover and await recovering.recovered(known)):
            return games
        log.warning("the generator had ended, and runs again: %d games are played again", num_games - len(valid))
    raise AssertionError("unreachable: the last end is not recovered from")


async def with_recovery(recovering: Recovering, play: Callable[[], Awaitable[_T]]) -> _T:
    """What `play` returns, which is called again where the generator had ended and was started again."""
    for _ in range(MOST_ENDS - 1):
        known = recovering.num_recoveries
        try:
            return await play()
        except LLMError:
            if not await recovering.recovered(known):
                raise
    return await play()
