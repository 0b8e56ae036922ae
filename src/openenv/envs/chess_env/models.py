"""Action, observation and state of the chess environment."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Color = Literal["white", "black"]
AgentColor = Literal["white", "black", "both"]
Ending = Literal[
    "", "checkmate", "stalemate", "repetition", "fifty moves", "insufficient material", "move limit"
]  # fmt: skip
LONGEST_MOVE = 20


class ChessAction(Action):
    """A legal move as text."""

    move: str = Field(
        min_length=2,
        max_length=LONGEST_MOVE,
        description="A legal move in SAN, such as Nf3, exd5, O-O or e8=Q+, or in UCI, such as g1f3",
    )


class ChessObservation(Observation):
    """The position. Both players see all of it."""

    METADATA_IS_PLAIN_JSON = True

    fen: str = Field(description="The position in Forsyth-Edwards notation")
    board: str = Field(description="Ranks from 8 to 1 and the files below: upper case is white, . is an empty square")
    color: Color = Field(description="The agent's colour")
    to_move: Color = Field(description="The colour whose turn it is")
    legal_actions: list[str] = Field(description="The legal moves in SAN; empty when done")
    legal_uci: list[str] = Field(description="The same moves in UCI, in the same order")
    last_moves: list[str] = Field(description="The last moves of both colours in SAN, at most six, the newest last")
    move_number: int = Field(description="Number of the move, as games are written: it grows after black's move")
    in_check: bool = Field(description="Whether the colour to move is in check")
    result: str = Field(description="1-0, 0-1 or 1/2-1/2, and * while the game goes on")
    ending: Ending = Field(description="Why the game is over; empty while it goes on")
    truncated: bool = Field(description="Whether the limit of moves has ended the game")


class ChessState(State):
    """The players of an episode and its moves."""

    start_fen: str = ""
    """The position at the start."""
    agent_color: AgentColor = "white"
    """The agent's colour; both where the agent plays for both."""
    opponent_policy: str = "random"
    """How the other colour plays: random, greedy, mcts or stockfish."""
    mcts_simulations: int = 0
    """Simulations of each move of mcts."""
    stockfish_nodes: int = 0
    """Nodes that Stockfish searches for each move."""
    max_moves: int = 0
    """Moves of each colour after which the game is a draw."""
    seed: int = 0
    """Determines the agent's colour, where it is random, and the opponent's moves."""
    moves: list[str] = []  # noqa: RUF012  pydantic copies it
    """All moves in SAN."""
    result: str = "*"
    """1-0, 0-1 or 1/2-1/2, and * while the game goes on."""
    ending: Ending = ""
    """Why the game is over; empty while it goes on."""
