"""Evaluates policies: each plays the same seeds on one server, and its episodes are summarized."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from openenv.auto.environment import named_environment
from openenv.core.env_client import EnvClient
from openenv.core.session_pool import SessionPool
from openenv.core.utils import run_async_safely
from openenv.evaluation.episodes import EpisodeRunner, EpisodeSessions
from openenv.evaluation.intervals import EpisodeResult, Summary, summarize
from openenv.evaluation.policy_player import EpisodeObserver, OnEpisodes, PlaysEpisodes, PolicyPlayer
from openenv.policies.base import Policy
from openenv.policies.baselines import RandomPolicy
from openenv.text.interface import TextInterface

DEFAULT_SESSIONS = 32


async def evaluate(
    server_url: str,
    client_class: Callable[..., EnvClient[Any, Any, Any]],
    policies: Sequence[Any],
    episodes: int,
    seed: int = 0,
    *,
    num_sessions: int = DEFAULT_SESSIONS,
    reset_kwargs: Mapping[str, Any] | None = None,
    text: TextInterface[Any, Any] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    on_summary: Callable[[Summary], None] | None = None,
    max_steps: int | None = None,
    observers_for: Callable[[int, Any], Sequence[EpisodeObserver]] | None = None,
    known_for: Callable[[int, Any], Mapping[int, EpisodeResult]] | None = None,
) -> list[Summary]:
    """Play the episodes with seeds `seed`, `seed + 1`, ... with every policy. Returns their summaries in that order.

    For the other arguments see `play_episodes`.

    Args:
        num_sessions: sessions that play at the same time.
        on_progress: called with a policy's name, the number of its episodes that have ended, and the number wanted.
        on_summary: called when a policy has finished, so that its result survives an interruption.
        observers_for: makes the observers of a policy's episodes, from its place among `policies` and the policy.
        known_for: likewise returns `known` of `play_episodes`.

    Raises:
        ServerUnreachable: without a server.
    """
    summaries = []
    async with SessionPool(client_class, server_url, max(1, min(num_sessions, episodes))) as pool:
        for place, policy in enumerate(policies):
            played = await play_episodes(
                pool,
                policy,
                episodes,
                seed,
                reset_kwargs=reset_kwargs,
                text=text,
                max_steps=max_steps,
                on_progress=_with_name(on_progress, policy.name),
                known={} if known_for is None else known_for(place, policy),
                observers=() if observers_for is None else observers_for(place, policy),
            )
            summaries.append(summarize(policy.name, played))
            if on_summary is not None:
                on_summary(summaries[-1])
    return summaries


def _with_name(on_progress: Callable[[str, int, int], None] | None, name: str) -> OnEpisodes | None:
    return None if on_progress is None else lambda ended, wanted: on_progress(name, ended, wanted)


def play_random_policy(server_url: str, num_games: int = 100, seed: int = 0) -> dict[str, Any]:
    """Play games of a server at random. Returns `wins`, `losses`, `pushes`, `win_rate` (0 to 1) and `total_games`.

    Also works where an event loop already runs, as in a notebook. Raises ServerUnreachable without a server.
    """
    served = named_environment(server_url).served_at(server_url)
    policy = RandomPolicy(seed, text=served.text)
    evaluation = evaluate(server_url, served.client, [policy], num_games, seed, text=served.text)
    (summary,) = run_async_safely(evaluation)
    return {
        "wins": summary.num_won,
        "losses": summary.num_lost,
        "pushes": summary.num_push,
        "win_rate": summary.win_rate if summary.num_episodes else 0.0,
        "total_games": summary.num_episodes,
    }


async def play_episodes(
    pool: EpisodeSessions,
    policy: Any,
    num_episodes: int,
    seed: int,
    *,
    reset_kwargs: Mapping[str, Any] | None = None,
    on_progress: OnEpisodes | None = None,
    text: TextInterface[Any, Any] | None = None,
    max_steps: int | None = None,
    known: Mapping[int, EpisodeResult] | None = None,
    observers: Sequence[EpisodeObserver] = (),
    executor: Executor | None = None,
) -> list[EpisodeResult]:
    """Play `num_episodes` episodes with a policy. Episode i is reset with seed `seed + i`; results come in that order.

    All sessions of the pool step together. A policy that learns plays one episode after another in one session.

    An episode in which the policy fails to choose is invalid, with its reason. The first error of a policy that fails
    from the start is raised.

    Args:
        policy: any object with `name` and `select_action(observation)`; `openenv.policies.Policy` lists the optional
            parts. Or a `PlaysEpisodes`.
        reset_kwargs: added to every reset.
        text: its situations label the counted decisions.
        max_steps: a longer episode is stopped, and its rewards so far count. If the policy chooses no legal action, the
            episode ends there as `unparseable`.
        known: results of episodes, by number, which are not played again.
        on_progress: called in the event loop when an episode has ended.
        executor: runs a slow policy; None: any thread.

    Raises:
        ServerUnreachable: when a session cannot be reset because the server is gone.
    """
    known = known or {}
    if isinstance(policy, PlaysEpisodes):
        resets = {
            number: {**(reset_kwargs or {}), "seed": seed + number}
            for number in range(num_episodes)
            if number not in known
        }
        progress = _Ended(on_progress, len(known), num_episodes)
        played = {**known, **await policy.play(pool, resets, max_steps, [*observers, progress])}
        return [played[number] for number in range(num_episodes)]
    policy = _with_optional_parts(policy)
    kwargs = {**policy.reset_kwargs, **(reset_kwargs or {})}
    player = PolicyPlayer(policy, text, max_steps, seed, num_episodes, known, observers, on_progress, executor)
    runner = EpisodeRunner(pool, player, max_steps=max_steps, num_sessions=1 if policy.learns else None)
    try:
        await runner.run_numbered(
            (number, {**kwargs, "seed": seed + number}) for number in range(num_episodes) if number not in known
        )
    finally:
        player.end_running()
    return [player.ended[number] for number in range(num_episodes)]


class _Ended(EpisodeObserver):
    """Counts the episodes that have ended."""

    def __init__(self, on_progress: OnEpisodes | None, known: int, wanted: int) -> None:
        self._on_progress, self._ended, self._wanted = on_progress, known, wanted

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        self._ended += 1
        if self._on_progress is not None:
            self._on_progress(self._ended, self._wanted)


def _with_optional_parts(policy: Any) -> Policy:
    """The policy, with the parts of `Policy` that it lacks."""
    if isinstance(policy, Policy):
        return policy
    whole = Policy()
    for name in dir(Policy):
        if not name.startswith("_") and hasattr(policy, name):
            setattr(whole, name, getattr(policy, name))
    return whole
