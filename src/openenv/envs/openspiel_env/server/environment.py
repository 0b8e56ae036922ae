"""One seat of any OpenSpiel game as an environment: the other seats and chance play in between."""

import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from openenv.envs.openspiel_env.server.episode import (
    Episode,
    advance,
    check_action,
    collect_reward,
    play_until_agent,
    start_episode,
)
from openenv.envs.openspiel_env.server.games import names_a_file, unknown_name, validate_params
from openenv.envs.openspiel_env.server.opponents import MCTS
from openenv.envs.openspiel_env.server.prepared_game import GameChoice, prepare_game
from openenv.envs.openspiel_env.server.probe import refuse_unless_playable
from openenv.envs.openspiel_env.server.rng import make_rng
from openenv.envs.openspiel_env.server.seat_view import SeatObservation, observe
from openenv.envs.openspiel_env.server.shared_game import SharedChoice, SharedGame
from openenv.formats.json_text import json_text

if TYPE_CHECKING:
    from openenv.core.env_server.vector_environment import VectorEnvironment

RESET_FIELDS = ("agent_player", "game_name", "game_params", "opponent_policy", "reveal_history")
ALL_SEATS: Literal["all"] = "all"
"""The `agent_player` of an episode in which the caller acts for every seat."""
_SEED_BITS = 31
_NO_METADATA: Mapping[str, Any] = {}


class OpenSpielEnvironment(Environment[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Plays any OpenSpiel game from one seat, against policies on the others.

    The arguments are the defaults of `reset`. The seed fixes everything random in an episode (chance, opponents, tree
    search): equal seeds give equal episodes under equal actions.
    """

    execution: Execution = "inline"  # "thread" on an instance that plays against tree search

    def __init__(
        self,
        game_name: str = "catch",
        agent_player: int = 0,
        opponent_policy: str | list[str] = "random",
        game_params: dict[str, Any] | None = None,
    ) -> None:
        """Raises ValueError, naming the argument, where no such game can be played."""
        self._default = GameChoice(
            game_name=game_name,
            game_params=game_params or {},
            agent_player=agent_player,
            opponent_policy=opponent_policy,
        )
        self._prepared = prepare_game(self._default, make_rng(0))
        self._episode: Episode | None = None
        self._shared: SharedGame | None = None
        """The episode where the caller acts for every seat."""
        self._episode_id: str | None = None
        self.execution = _execution(self._default)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> OpenSpielObservation:
        """Start a new game and return the agent's first decision.

        seed: equal seeds give equal games. Without one, a random seed is chosen; the metadata contains it.
        game_name, game_params, agent_player, opponent_policy: replace the server's for this episode. Another game than
        the server's starts from that game's default parameters and seat 0. agent_player="all": the caller acts for
        every seat, in the order of the game; there are no opponents.
        reveal_history: adds to each observation's metadata the `history` of action numbers, from which the game can be
        rebuilt. Only for turn-based games without hidden information.
        Raises ValueError for any other value or name. The current episode then continues.
        """
        reveal_history = bool(kwargs.pop("reveal_history", False))
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        if kwargs.get("agent_player") == ALL_SEATS:
            return self._reset_shared(seed, episode_id, {**kwargs, "agent_player": None}, reveal_history)
        choice = self.resolve_choice(kwargs)
        rng, prepared = make_rng(seed), self._prepared
        if prepared.is_stateful or reveal_history or choice != prepared.choice:
            prepared = prepare_game(choice, rng, reveal_history=reveal_history)
        episode = start_episode(prepared, rng, seed, reveal_history=reveal_history)
        self._prepared, self._episode, self._episode_id = prepared, episode, episode_id or str(uuid4())
        self._shared = None
        self.execution = _execution(choice)
        self.success_return = prepared.success_return
        play_until_agent(episode)
        state, is_over, cache = episode.state, episode.phase == "terminal", prepared.opening_cache
        seen = observe(prepared.view, state, is_over=is_over) if cache is None else cache.observe(state)
        metadata = {"seed": seed, "num_players": state.num_players(), "opponent_policy": choice.opponent_policy}
        return _make_observation(episode, seen, collect_reward(episode) if is_over else None, metadata)

    def _reset_shared(
        self, seed: int, episode_id: str | None, kwargs: Mapping[str, Any], reveal_history: bool
    ) -> OpenSpielObservation:
        """Start a game in which the caller acts for every seat."""
        for name, value in (("opponent_policy", kwargs.get("opponent_policy")), ("reveal_history", reveal_history)):
            if value:
                raise ValueError(
                    f"{name}={value!r}: with agent_player={ALL_SEATS!r} there is no such thing. Leave it out."
                )
        choice = self.resolve_choice(kwargs)
        self._shared = SharedGame(SharedChoice(choice.game_name, choice.game_params), seed)
        self._episode, self._episode_id, self.execution = None, episode_id or str(uuid4()), "inline"
        self.success_return = self._shared.success_return
        return self._shared.first_observation()

    def observation_of(self, seat: int) -> OpenSpielObservation:
        """What a seat sees now, with agent_player="all". Raises ValueError otherwise."""
        if self._shared is None:
            raise ValueError(f"reset(agent_player={ALL_SEATS!r}) comes first: only then all seats can be seen.")
        return self._shared.observation(seat)

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run slow calls in a thread: a probe of new `game_params`, tree search, and the replay of a whole episode."""
        if verb == "load":
            return "thread"
        if verb != "reset":
            return self.execution
        is_slow = keywords.get("game_params") is not None or MCTS in str(keywords.get("opponent_policy"))
        return "thread" if is_slow else _execution(self._default)

    def step(self, action: OpenSpielAction, timeout_s: float | None = None, **kwargs: Any) -> OpenSpielObservation:
        """Apply an action and the moves that follow it; return the agent's next decision, or the end.

        Raises ValueError, with the game unchanged, for an action that is not legal or names another game, after the
        end, and before the first reset.
        """
        episode = self._episode
        if self._shared is not None:
            return self._shared.act(action)
        if episode is None:
            raise ValueError("step came before reset: there is no game yet. Call reset() first.")
        legal = episode.legal
        if legal is None or action.action_id not in legal or action.game_name or action.game_params:
            check_action(episode, action)
        advance(episode, action.action_id)
        reward = _step_reward(episode)
        seen = observe(episode.prepared.view, episode.state, is_over=episode.phase == "terminal")
        return _make_observation(episode, seen, reward, _NO_METADATA)

    def vectorized(self, num_envs: int) -> "VectorEnvironment":
        """Return games that are stepped in one loop, without text and metadata."""
        from openenv.envs.openspiel_env.server.vector import OpenSpielVector  # needs numpy

        return OpenSpielVector(self.resolve_choice, num_envs)

    def save_state(self) -> bytes:
        """Return the seed, the choice and the agent's actions, which fix the episode bit for bit.

        Raises ValueError before the first reset.
        """
        episode, shared = self._episode, self._shared
        if shared is not None:
            choice = {**shared.choice._asdict(), "agent_player": ALL_SEATS}
            return self._snapshot(shared.seed, choice, shared.actions)
        if episode is None:
            raise ValueError("there is no game to save yet. Call reset() first.")
        return self._snapshot(
            episode.seed, vars(episode.prepared.choice), episode.actions, reveal_history=episode.reveal_history
        )

    def _snapshot(
        self, seed: int, choice: Mapping[str, Any], actions: list[int], *, reveal_history: bool = False
    ) -> bytes:
        saved = {"seed": seed, "choice": choice, "reveal_history": reveal_history, "actions": actions}
        return json_text({**saved, "episode_id": self._episode_id}).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Replay a saved episode: board, chance, opponents, steps and rewards are as they were."""
        saved = json.loads(snapshot)
        self.reset(
            seed=saved["seed"],
            episode_id=saved["episode_id"],
            reveal_history=saved["reveal_history"],
            **saved["choice"],
        )
        if self._shared is not None:
            self._shared.replay(saved["actions"])
            return
        episode = self._episode
        assert episode is not None
        for action_id in saved["actions"]:
            advance(episode, action_id)
        if saved["actions"]:  # the first step reports the rewards before it
            _step_reward(episode)

    @property
    def state(self) -> OpenSpielState:
        """The game, the seat, the opponents, and the number of steps that the agent has taken."""
        if self._shared is not None:
            return OpenSpielState(
                episode_id=self._episode_id,
                step_count=len(self._shared.actions),
                num_players=self._shared.num_players,
                agent_player=ALL_SEATS,
                opponent_policy=[],
                **self._shared.choice._asdict(),
            )
        return OpenSpielState(
            episode_id=self._episode_id,
            step_count=len(self._episode.actions) if self._episode is not None else 0,
            num_players=self._prepared.game.num_players(),
            **vars(self._prepared.choice),
        )

    def resolve_choice(self, reset_kwargs: Mapping[str, Any]) -> GameChoice:
        """Return what a reset with these keywords plays. Raises ValueError for what a client cannot choose."""
        if not reset_kwargs:
            return self._default
        for name in reset_kwargs:
            if name not in RESET_FIELDS:
                raise unknown_name("reset argument", name, (*RESET_FIELDS, "seed", "episode_id"))
        given = {name: value for name, value in reset_kwargs.items() if value is not None}
        _check_types(given)
        default = self._default
        if given.get("game_name", default.game_name) != default.game_name:
            policy = default.opponent_policy
            default = GameChoice(opponent_policy=policy) if isinstance(policy, str) else GameChoice()
        choice = GameChoice(**{**vars(default), **given})
        _check_new_params(choice, self._default)
        return choice


def _check_types(given: Mapping[str, Any]) -> None:
    types = {"game_name": str, "game_params": dict, "agent_player": int, "opponent_policy": str | list}
    names = {"game_params": "an object", "agent_player": "an int", "opponent_policy": "a string or a list"}
    for name, value in given.items():
        if not isinstance(value, types[name]) or isinstance(value, bool):
            raise ValueError(f"{name}={value!r}: expected {names.get(name, 'a string')}.")


def _check_new_params(choice: GameChoice, default: GameChoice) -> None:
    """Raise ValueError where a client's parameters are wrong, name a file, or would end the process.

    The parameters of the server's command line are trusted.
    """
    params = choice.game_params
    if params != default.game_params and names_a_file(params):
        raise ValueError("game_params: a parameter that names a file can only be set where the server is started.")
    if params and (choice.game_name, params) != (default.game_name, default.game_params):
        validate_params(choice.game_name, params)
        refuse_unless_playable(choice.game_name, params)


def _execution(choice: GameChoice) -> Execution:
    """Tree search takes milliseconds to seconds a move; everything else takes microseconds."""
    return "thread" if MCTS in choice.opponent_policy else "inline"


def _step_reward(episode: Episode) -> float:
    """Return the reward of a step."""
    if episode.prepared.rewards_only_at_end and episode.phase != "terminal":
        return 0.0
    return collect_reward(episode)


def _make_observation(
    episode: Episode, seen: SeatObservation, reward: float | None, metadata: Mapping[str, Any]
) -> OpenSpielObservation:
    prepared, phase = episode.prepared, episode.phase
    legal, names, text, tensor = seen
    episode.legal = tuple(legal)
    metadata = {**prepared.metadata, "text": text, "legal_action_names": names, **metadata}
    if episode.reveal_history:
        metadata["history"] = episode.state.history()
    fields = {
        "done": phase == "terminal",
        "reward": reward,
        "metadata": metadata,
        "info_state": tensor,
        "legal_actions": legal,
        "game_phase": phase,
        "current_player_id": episode.player,
        "opponent_last_action": episode.opponent_last_action if prepared.view.shows_moves else None,
    }
    return OpenSpielObservation.construct_unchecked(fields)
