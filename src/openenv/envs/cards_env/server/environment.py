"""Card games of RLCard."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any, Literal
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.core.outcomes import ANY_POSITIVE
from openenv.envs.cards_env.models import CardsAction, CardsObservation, CardsState
from openenv.envs.cards_env.server.games import GAMES, action_name, make_game
from openenv.envs.cards_env.server.opponents import RANDOM, RULE, Opponent, make_opponent, policies_of
from openenv.envs.cards_env.server.views import features_of, view
from openenv.envs.reset_values import refuse_other_keywords, require_choice, require_whole
from openenv.formats.json_text import json_text

KEYWORDS = ("game", "agent_player", "opponent_policy", "num_players", "features")
ALL_SEATS: Literal["all"] = "all"
"""The `agent_player` of an episode in which the caller acts for every seat."""
_SLOW = "doudizhu"
"""Its tables take a fifth of a second to be read, once."""


class CardsEnvironment(Environment[CardsAction, CardsObservation, CardsState]):
    """A card game from one seat, or from all. The reward is RLCard's payoff of the seat, at the end of the game."""

    execution = "inline"
    success_return = ANY_POSITIVE

    def __init__(self) -> None:
        self._state = CardsState()
        self._env: Any = None
        self._opponent: Opponent | None = None
        self._player = 0
        """The seat to act."""
        self._seen: dict[str, Any] = {}
        """RLCard's state of that seat."""
        self._actions: list[int] = []
        """The caller's actions, in order."""
        self._moves: list[list[str]] = []
        """For each seat, the moves since its last turn, its own first."""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        game: str = "leduc-holdem",
        agent_player: int | Literal["all"] = 0,
        opponent_policy: str = "random",
        num_players: int | None = None,
        features: bool = False,
        **kwargs: Any,
    ) -> CardsObservation:
        """Deal a game; the other seats play until the agent's turn. Equal seeds deal equal cards.

        Args:
            agent_player: the agent's seat; "all": the caller acts for every seat, in the order of the game.
            opponent_policy: random, or RLCard's rules, where the game has some.
            num_players: seats of the two hold'em games, 2 to 6.
            features: whether observations have `info_state`.

        Raises:
            ValueError: for another keyword or value.
        """
        refuse_other_keywords(kwargs, KEYWORDS)
        require_choice("game", game, list(GAMES))
        seats = _num_players(game, num_players)
        if agent_player == ALL_SEATS and opponent_policy != RANDOM:
            raise ValueError(f"opponent_policy={opponent_policy!r}: with agent_player='all' there is no other seat.")
        if agent_player != ALL_SEATS and (type(agent_player) is not int or agent_player not in range(seats)):
            raise ValueError(f"agent_player={agent_player!r}: expected a whole number from 0 to {seats - 1}, or 'all'.")
        if not isinstance(features, bool):
            raise ValueError(f"features={features!r:.100}: expected true, for info_state in observations, or false.")
        require_choice(f"opponent_policy of {game}", opponent_policy, policies_of(game))
        seed = Random().getrandbits(32) if seed is None else seed
        rng = Random(seed)
        env = make_game(game, seats, rng.getrandbits(31), self._env)
        self._seen, self._player = env.reset()
        self._env, self._opponent = env, make_opponent(game, opponent_policy, rng)
        self._actions, self._moves = [], [[] for _ in range(seats)]
        self._state = CardsState(
            episode_id=episode_id or str(uuid4()),
            game=game,
            agent_player=agent_player,
            num_players=seats,
            opponent_policy=opponent_policy,
            features=features,
            seed=seed,
        )
        self._play_until_agent()
        metadata = {"seed": seed, "num_players": seats, "opponent_policy": opponent_policy}
        if agent_player == ALL_SEATS:
            metadata |= {"num_actions": env.num_actions, **self._shared_metadata()}
        return self._observation(self._watched, self._payoffs()[self._watched] if env.is_over() else None, metadata)

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run in a thread what takes long: a replay, and the first game with rule models or with large tables."""
        is_slow = verb == "load" or keywords.get("game") == _SLOW or keywords.get("opponent_policy") == RULE
        return "thread" if is_slow else "inline"

    def step(self, action: CardsAction, timeout_s: float | None = None, **kwargs: Any) -> CardsObservation:
        """Play an action, then the other seats. Raises ValueError, with the game as it was, if it is not legal."""
        if self._env is None:
            raise ValueError("step came before reset: there is no game yet. Call reset() first.")
        if action.action_id not in self._legal():
            legal = ", ".join(f"{known} {action_name(self._env, known)}" for known in self._legal())
            raise ValueError(f"action_id={action.action_id} is not legal. Legal are: {legal}.")
        actor = self._player
        self._act(action.action_id)
        metadata = self._shared_metadata() if self._state.agent_player == ALL_SEATS else {}
        return self._observation(self._watched, self._payoffs()[actor], metadata)

    def observation_of(self, seat: int) -> CardsObservation:
        """What a seat sees now, with agent_player="all". Raises ValueError otherwise."""
        if self._env is None or self._state.agent_player != ALL_SEATS:
            raise ValueError("reset(agent_player='all') comes first: only then all seats can be seen.")
        return self._observation(seat, None, {"agent_player": seat})

    def save_state(self) -> bytes:
        """The seed, the choice and the agent's actions, which fix the episode. Raises ValueError before a reset."""
        if self._env is None:
            raise ValueError("there is no game to save yet. Call reset() first.")
        return json_text({"state": self._state.model_dump(), "actions": self._actions}).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Replay a saved episode: cards and opponents are as they were."""
        saved = json.loads(snapshot)
        state = saved["state"]
        fixed = GAMES[state["game"]].most_players is None
        self.reset(
            seed=state["seed"],
            episode_id=state["episode_id"],
            num_players=None if fixed else state["num_players"],
            **{name: state[name] for name in ("game", "agent_player", "opponent_policy", "features")},
        )
        for action_id in saved["actions"]:
            self._act(action_id)

    @property
    def state(self) -> CardsState:
        """The episode's id, its number of steps, the game and the seats."""
        return self._state

    @property
    def _watched(self) -> int:
        """The seat that is shown: the agent's, or where the caller acts for all, the one to act."""
        return self._player if self._state.agent_player == ALL_SEATS else self._state.agent_player

    def _act(self, action_id: int) -> None:
        """Play an action of the caller, then the other seats."""
        self._actions.append(action_id)
        self._state.step_count += 1
        self._moves[self._player].clear()
        self._move(action_id)
        self._play_until_agent()

    def _play_until_agent(self) -> None:
        assert self._opponent is not None
        while not self._env.is_over() and self._player != self._watched:
            self._move(self._opponent(self._env, self._seen, self._player))

    def _move(self, action_id: int) -> None:
        for moves in self._moves:
            moves.append(f"player {self._player} {action_name(self._env, action_id)}")
        self._seen, following = self._env.step(action_id)
        if not self._env.is_over():
            self._player = following

    def _legal(self) -> list[int]:
        """The legal actions of the seat to act, by number: RLCard's order is not the same in every process."""
        return [] if self._env.is_over() else sorted(map(int, self._seen["legal_actions"]))

    def _payoffs(self) -> list[float]:
        """The reward of each seat for the last step."""
        if not self._env.is_over():
            return [0.0] * self._state.num_players
        return [float(payoff) for payoff in self._env.get_payoffs()]

    def _shared_metadata(self) -> dict[str, Any]:
        """The seat to act and the rewards of all seats, for a caller that acts for every seat."""
        return {"agent_player": self._player, "rewards": self._payoffs()}

    def _observation(self, seat: int, reward: float | None, metadata: dict[str, Any]) -> CardsObservation:
        legal = self._legal() if seat == self._player else []
        hand, public = view(self._env, seat)
        fields = {
            "game": self._state.game,
            "seat": seat,
            "hand": hand,
            "public": public,
            "moves": list(self._moves[seat]),
            "legal_actions": legal,
            "legal_action_names": [action_name(self._env, action_id) for action_id in legal],
            "info_state": features_of(self._env, seat) if self._state.features else [],
            "done": bool(self._env.is_over()),
            "reward": reward,
            "metadata": metadata,
        }
        return CardsObservation.construct_unchecked(fields)


def _num_players(game: str, chosen: Any) -> int:
    """The seats of a game. Raises ValueError for a number that the game cannot have."""
    known = GAMES[game]
    if chosen is None or (chosen == known.num_players and known.most_players is None):
        return known.num_players
    if known.most_players is None:
        raise ValueError(f"num_players={chosen!r}: {game} has {known.num_players}. Leave it out.")
    return require_whole("num_players", chosen, 2, known.most_players)
