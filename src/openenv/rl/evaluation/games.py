"""The games of an evaluation: each environment at its last level, with the model under the rules of its training."""

from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any

from openenv.evaluation import play_episodes
from openenv.evaluation.episodes import EpisodeSessions
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import OnEpisodes
from openenv.policies import LanguageModelPolicy
from openenv.rl.algorithm.curricula import level_keywords
from openenv.rl.config import Config, EnvConfig

if TYPE_CHECKING:
    from openenv.rl.engines.embedded import TrainingEnvironment
    from openenv.rl.generators.base import BaseGenerator


def evaluation_keywords(config: EnvConfig) -> Mapping[str, Any]:
    """Keywords of an evaluation's resets: those of the last level of a curriculum."""
    return level_keywords(config)[-1]


def model_policy(config: Config, environment: "TrainingEnvironment", generator: "BaseGenerator") -> LanguageModelPolicy:
    """The policy of a generator's model in an environment, with the prompts and limits of the run."""
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
) -> list[EpisodeResult]:
    """Games of a policy in an environment of the run, as `openenv.evaluation.play_episodes`.

    Args:
        pool: Sessions of the environment.
        policy: Chooses the actions.
        num_games: Number of games.
        seed: Seed of the first game; the others follow it.
        config: That of the run.
        environment: The environment.
        on_progress: Called with the number of games that have ended, and `num_games`.
        executor: Runs the model; None: any thread.
    """
    return await play_episodes(
        pool,
        policy,
        num_games,
        seed,
        reset_kwargs=evaluation_keywords(environment.config),
        text=environment.served.text,
        max_steps=config.conversation.max_turns,
        on_progress=on_progress,
        executor=executor,
    )
