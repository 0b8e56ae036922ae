"""Chess by OpenSpiel's rules."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any, cast
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.core.outcomes import ANY_POSITIVE
from openenv.envs.chess_env.models import AgentColor, ChessAction, ChessObservation, ChessState, Color, Ending
from openenv.envs.chess_env.moves import read_move
from openenv.envs.chess_env.server.drawing import drawn
from openenv.envs.chess_env.server.fen import START_FEN, board_of, checked_fen, is_in_check, pieces_of
from openenv.envs.chess_env.server.game import Game
from openenv.envs.chess_env.server.opponents import POLICIES, RANDOM, SLOW, STOCKFISH, Opponent, make_opponent
from openenv.envs.chess_env.server.stockfish import Stockfish
from openenv.envs.reset_values import (
    random_state,
    refuse_other_keywords,
    require_choice,
    require_whole,
    restored_random,
)
from openenv.formats.json_text import json_text

COLORS: tuple[Color, Color] = ("white", "black")
"""The seats: seat 0 is white."""
ALL_SEATS = "all"
KEYWORDS = (
    "fen", "agent_color", "opponent_policy", "mcts_simulations", "stockfish_nodes", "max_moves", "agent_player"
)  # fmt: skip
_LAST_MOVES = 6
_RESULTS = {"white": "1-0", "black": "0-1", None: "1/2-1/2"}


class ChessEnvironment(Environment[ChessAction, ChessObservation, ChessState]):
    """A game of chess as one colour, or as both. Winning earns 1, losing costs 1, a draw earns 0."""

    execution: Execution = "inline"  # "thread" on an instance whose opponent searches
    success_return = ANY_POSITIVE

    def __init__(self) -> None:
        self._state = ChessState()
        self._game: Game | None = None
        self._rng = Random(0)
        self._opponent: Opponent | None = None
        """None: the agent plays both colours."""
        self._engine: Stockfish | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        fen: str | None = None,
        agent_color: str = "white",
        opponent_policy: str = RANDOM,
        mcts_simulations: int = 50,
        stockfish_nodes: int = 100,
        max_moves: int = 200,
        agent_player: str | None = None,
        **kwargs: Any,
    ) -> ChessObservation:
        """Set up a position; the opponent moves first if it is its turn. Equal seeds give equal episodes.

        Args:
            fen: the position; None: the start of a game.
            agent_color: white, black, or random, which the seed draws.
            opponent_policy: random, greedy (material), mcts or stockfish.
            max_moves: moves of each colour after which the game is a draw.
            agent_player: `all`, to play both colours; the agent's colour and opponent then do not count.

        Raises:
            ValueError: for another keyword or value; the current episode then continues.
        """
        refuse_other_keywords(kwargs, KEYWORDS)
        start_fen = START_FEN if fen is None else checked_fen(fen)
        require_choice("agent_color", agent_color, [*COLORS, "random"])
        require_choice("opponent_policy", opponent_policy, POLICIES)
        require_whole("mcts_simulations", mcts_simulations, 1, 10_000)
        require_whole("stockfish_nodes", stockfish_nodes, 1, 1_000_000)
        require_whole("max_moves", max_moves, 1, 5000)
        if agent_player is not None:
            require_choice("agent_player", agent_player, [ALL_SEATS])
        game = Game.start(start_fen)
        if game.ending:
            raise ValueError(f"fen={fen!r}: the game is over ({game.ending}). Give a position with a legal move.")
        seed = Random().getrandbits(32) if seed is None else seed
        rng = Random(seed)
        color = "both" if agent_player else rng.choice(COLORS) if agent_color == "random" else agent_color
        state = ChessState(
            episode_id=episode_id or str(uuid4()),
            start_fen=start_fen,
            agent_color=cast(AgentColor, color),
            opponent_policy=opponent_policy,
            mcts_simulations=mcts_simulations,
            stockfish_nodes=stockfish_nodes,
            max_moves=max_moves,
            seed=seed,
        )
        opponent = self._make_opponent(state, rng)
        self._begin(state, _answered(game, state, opponent), rng, opponent)
        shown = self._shown(COLORS[0])
        reward = self._rewards()[shown] if state.ending else None
        metadata = {"seed": seed, "num_players": len(COLORS), "opponent_policy": opponent_policy}
        return self._observation(shown, reward, metadata)

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run in a thread what takes long: an opponent that searches, and the replay of a game."""
        if verb == "reset":
            return "thread" if keywords.get("opponent_policy") in SLOW else "inline"
        return "thread" if verb == "load" else self.execution

    def step(self, action: ChessAction, timeout_s: float | None = None, **kwargs: Any) -> ChessObservation:
        """Make a move, then the opponent's. Raises ValueError, with the game as it was, for one that is not legal."""
        if self._game is None:
            raise ValueError("step came before reset: there is no game yet. Call reset() first.")
        legal, mover = self._game.legal, self._game.to_move
        game = self._game.after(legal.actions[read_move(action.move, legal.san, legal.uci)])
        self._game = _answered(game, self._state, self._opponent)
        self._state.step_count += 1
        self._note_progress()
        shown = self._shown(mover)
        return self._observation(shown, self._rewards()[mover], {})

    def observation_of(self, seat: int) -> ChessObservation:
        """What a seat sees now, with agent_player="all". White is seat 0."""
        return self._observation(COLORS[seat], None, {})

    def save_state(self) -> bytes:
        """The start, the moves and the random numbers. Raises ValueError before a reset."""
        if self._game is None:
            raise ValueError("there is no game to save yet. Call reset() first.")
        saved = {
            "state": self._state.model_dump(),
            "actions": self._game.state.history(),
            "rng": random_state(self._rng),
        }
        return json_text(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode: position, repetitions and the opponent's random numbers are as they were."""
        saved = json.loads(snapshot)
        state, rng = ChessState(**saved["state"]), restored_random(saved["rng"])
        opponent = self._make_opponent(state, rng)
        self._begin(state, Game.start(state.start_fen, saved["actions"]), rng, opponent)

    def render_web(self, observation: dict[str, Any]) -> str:
        """The board, from the agent's side."""
        return drawn(observation["fen"], observation["color"])

    @property
    def state(self) -> ChessState:
        """The episode's id, its number of steps, the players and all moves."""
        return self._state

    def close(self) -> None:
        """End Stockfish's process."""
        if self._engine is not None:
            self._engine.close()

    def _make_opponent(self, state: ChessState, rng: Random) -> Opponent | None:
        """Raises ValueError where Stockfish is not installed."""
        if state.agent_color == "both":
            return None
        if state.opponent_policy == STOCKFISH and self._engine is None:
            self._engine = Stockfish()
        return make_opponent(state, rng, self._engine)

    def _begin(self, state: ChessState, game: Game, rng: Random, opponent: Opponent | None) -> None:
        """Play an episode from here on."""
        self._state, self._game, self._rng, self._opponent = state, game, rng, opponent
        self.execution = "thread" if opponent is not None and state.opponent_policy in SLOW else "inline"
        self._note_progress()

    def _note_progress(self) -> None:
        """Bring the state up to the game."""
        assert self._game is not None
        state, game = self._state, self._game
        state.moves, state.ending = list(game.san), _ending(game, state)
        state.result = _RESULTS[game.winner] if state.ending else "*"

    def _shown(self, mover: Color) -> Color:
        """The colour that is shown the game: the agent's. Where it plays both, the one to move, at the end the last."""
        assert self._game is not None
        color = self._state.agent_color
        if color != "both":
            return color
        return mover if self._state.ending else self._game.to_move

    def _rewards(self) -> dict[Color, float]:
        """The rewards of the last moves."""
        assert self._game is not None
        winner = self._game.winner
        return {color: 0.0 if winner is None else 1.0 if color == winner else -1.0 for color in COLORS}

    def _observation(self, color: Color, reward: float | None, metadata: dict[str, Any]) -> ChessObservation:
        game, state = self._game, self._state
        if game is None:
            raise ValueError("there is no game yet. Call reset() first.")
        if state.agent_color == "both":
            rewards = list(self._rewards().values())
            metadata = {**metadata, "agent_player": COLORS.index(color), "rewards": rewards}
        can_move = not state.ending and color == game.to_move
        fields = {
            "fen": game.fen,
            "board": board_of(game.fen),
            "color": color,
            "to_move": game.to_move,
            "legal_actions": game.legal.san if can_move else [],
            "legal_uci": game.legal.uci if can_move else [],
            "last_moves": list(game.san[-_LAST_MOVES:]),
            "move_number": int(game.fen.split()[5]),
            "in_check": is_in_check(pieces_of(game.fen), game.to_move),
            "result": state.result,
            "ending": state.ending,
            "truncated": state.ending == "move limit",
            "done": bool(state.ending),
            "reward": reward,
            "metadata": metadata,
        }
        return ChessObservation.construct_unchecked(fields)


def _ending(game: Game, state: ChessState) -> Ending:
    """Why a game is over, by the rules or by the limit of moves; empty while it goes on."""
    is_long = len(game.san) >= len(COLORS) * state.max_moves
    return game.ending or ("move limit" if is_long else "")


def _answered(game: Game, state: ChessState, opponent: Opponent | None) -> Game:
    """The game at the agent's turn, or at its end."""
    while opponent is not None and game.to_move != state.agent_color and not _ending(game, state):
        game = game.after(opponent(game))
    return game
