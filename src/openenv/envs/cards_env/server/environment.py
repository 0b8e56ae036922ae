"""Card games of RLCard."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.cards_env.models import CardsAction, CardsObservation, CardsState
from openenv.envs.cards_env.server.games import GAMES, action_name, make_game
from openenv.envs.cards_env.server.opponents import Opponent, make_opponent, policies_of
from openenv.envs.cards_env.server.views import view
from openenv.envs.reset_values import refuse_other_keywords, require_choice, require_whole

KEYWORDS = ("game", "agent_player", "opponent_policy", "num_players")
_SLOW = "doudizhu"
"""Its tables take a fifth of a second to be read, once."""


class CardsEnvironment(Environment[CardsAction, CardsObservation, CardsState]):
    """A card game from one seat. The reward is RLCard's payoff of the seat, at the end of the game."""

    execution = "inline"

    def __init__(self) -> None:
        self._state = CardsState()
        self._env: Any = None
        self._opponent: Opponent | None = None
        self._player = 0
        """The seat to act."""
        self._seen: dict[str, Any] = {}
        """RLCard's state of that seat."""
        self._actions: list[int] = []
        """The agent's actions, in order."""
        self._moves: list[str] = []
        """Moves since the last observation."""

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        game: str = "leduc-holdem",
        agent_player: int = 0,
        opponent_policy: str = "random",
        num_players: int | None = None,
        **kwargs: Any,
    ) -> CardsObservation:
        """Deal a game; the other seats play until the agent's turn. Equal seeds deal equal cards.

        agent_player: the agent's seat. opponent_policy: random, or RLCard's rules, where the game has some.
        num_players: seats of the two hold'em games, 2 to 6. Raises ValueError for another keyword or value.
        """
        refuse_other_keywords(kwargs, KEYWORDS)
        require_choice("game", game, list(GAMES))
        seats = _num_players(game, num_players)
        require_whole("agent_player", agent_player, 0, seats - 1)
        require_choice(f"opponent_policy of {game}", opponent_policy, policies_of(game))
        seed = Random().getrandbits(32) if seed is None else seed
        rng = Random(seed)
        env = make_game(game, seats, rng.getrandbits(31))
        self._seen, self._player = env.reset()
        self._env, self._opponent = env, make_opponent(game, opponent_policy, rng)
        self._actions, self._moves = [], []
        self._state = CardsState(
            episode_id=episode_id or str(uuid4()),
            game=game,
            agent_player=agent_player,
            num_players=seats,
            opponent_policy=opponent_policy,
            seed=seed,
        )
        self._play_until_agent()
        metadata = {"seed": seed, "num_players": seats, "opponent_policy": opponent_policy}
        return self._observation(self._payoff() if env.is_over() else None, metadata)

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run in a thread what takes long: the replay of an episode, and the first game with large tables."""
        return "thread" if verb == "load" or keywords.get("game") == _SLOW else "inline"

    def step(self, action: CardsAction, timeout_s: float | None = None, **kwargs: Any) -> CardsObservation:
        """Play an action, then the other seats. Raises ValueError, with the game as it was, if it is not legal."""
        if self._env is None:
            raise ValueError("step came before reset: there is no game yet. Call reset() first.")
        if action.action_id not in self._seen["legal_actions"]:
            legal = ", ".join(f"{known} {action_name(self._env, known)}" for known in self._legal())
            raise ValueError(f"action_id={action.action_id} is not legal. Legal are: {legal}.")
        self._moves = []
        self._act(action.action_id)
        return self._observation(self._payoff() if self._env.is_over() else 0.0, {})

    def save_state(self) -> bytes:
        """The seed, the choice and the agent's actions, which fix the episode. Raises ValueError before a reset."""
        if self._env is None:
            raise ValueError("there is no game to save yet. Call reset() first.")
        return json.dumps({"state": self._state.model_dump(), "actions": self._actions}).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Replay a saved episode: cards and opponents are as they were."""
        saved = json.loads(snapshot)
        state = saved["state"]
        fixed = GAMES[state["game"]].most_players is None
        self.reset(
            seed=state["seed"],
            episode_id=state["episode_id"],
            num_players=None if fixed else state["num_players"],
            **{name: state[name] for name in ("game", "agent_player", "opponent_policy")},
        )
        for action_id in saved["actions"]:
            self._act(action_id)

    @property
    def state(self) -> CardsState:
        """The episode's id, its number of steps, the game and the seats."""
        return self._state

    def _act(self, action_id: int) -> None:
        """Play an action of the agent, then the other seats."""
        self._actions.append(action_id)
        self._state.step_count += 1
        self._move(action_id)
        self._play_until_agent()

    def _play_until_agent(self) -> None:
        assert self._opponent is not None
        while not self._env.is_over() and self._player != self._state.agent_player:
            self._move(self._opponent(self._env, self._seen, self._player))

    def _move(self, action_id: int) -> None:
        self._moves.append(f"player {self._player} {action_name(self._env, action_id)}")
        self._seen, self._player = self._env.step(action_id)

    def _legal(self) -> list[int]:
        """The agent's legal actions, by number: RLCard's order is not the same in every process."""
        return [] if self._env.is_over() else sorted(map(int, self._seen["legal_actions"]))

    def _payoff(self) -> float:
        return float(self._env.get_payoffs()[self._state.agent_player])

    def _observation(self, reward: float | None, metadata: dict[str, Any]) -> CardsObservation:
        legal, seat = self._legal(), self._state.agent_player
        hand, public = view(self._env, seat)
        fields = {
            "game": self._state.game,
            "seat": seat,
            "hand": hand,
            "public": public,
            "moves": self._moves,
            "legal_actions": legal,
            "legal_action_names": [action_name(self._env, action_id) for action_id in legal],
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
