"""Text interface of chess: the board, the last moves and the legal moves; a reply is a move in SAN or UCI."""

import re
from collections.abc import Mapping
from itertools import islice

from openenv.envs.chess_env.models import ChessAction, ChessObservation
from openenv.envs.chess_env.moves import find_moves
from openenv.text.interface import TextInterface
from openenv.text.mentions import MOST_MENTIONS, Mention, only_named
from openenv.text.reading import bare, final_answer

_MOVE = re.compile(r"(?<![\w=-])[\w=-]*\d[\w=-]*|[Oo]-[Oo](?:-[Oo])?")
"""A word that can be a move: it has a digit, or is castling."""


class ChessText(TextInterface[ChessAction, ChessObservation]):
    """Describes the position from the observation alone."""

    history = "latest"

    def instructions(self, observation: ChessObservation) -> str:
        """The colour, how to read the board, and how to write a reply."""
        return (
            f"Chess: you play {observation.color}. Upper case letters are white pieces, lower case letters are black "
            "pieces. Reply with one of the legal moves that each message lists, such as Nf3, exd5, O-O or e8=Q."
        )

    def describe(self, observation: ChessObservation) -> str:
        """The board, the last moves, the turn, and the legal moves; at the end the result and its reason."""
        seen = observation
        lines = [seen.board]
        if seen.last_moves:
            lines.append(f"Last moves: {' '.join(seen.last_moves)}")
        if seen.done:
            return "\n".join([*lines, f"The game is over: {seen.ending.replace('_', ' ')}, {seen.result}."])
        check = ", in check" if seen.in_check else ""
        lines.append(f"Move {seen.move_number}, {seen.to_move} to move{check}.")
        return "\n".join([*lines, f"Legal moves: {' '.join(seen.legal_actions)}"])

    def replies(self, observation: ChessObservation) -> Mapping[str, ChessAction]:
        """The legal moves in SAN."""
        return {name: ChessAction(move=name) for name in observation.legal_actions}

    def parse(self, reply: str, observation: ChessObservation) -> ChessAction | None:
        """The move that a reply is, or the only legal move among its words; None if it names none or several."""
        named = _named(reply, observation)
        return ChessAction(move=named[0]) if len(named) == 1 else None

    def problem(self, reply: str, observation: ChessObservation) -> str:
        """That the reply names several legal moves, or none, and which are legal."""
        named = _named(reply, observation)
        if len(named) > 1:
            return f"{reply!r:.200} can mean {' or '.join(named)}: name one move."
        return "" if named else f"{reply!r:.200} names no legal move: {' '.join(observation.legal_actions)}"

    def wording(self, action: ChessAction, observation: ChessObservation) -> str | None:
        """The SAN of a legal move, however the action writes it."""
        found = find_moves(action.move, observation.legal_actions, observation.legal_uci)
        return observation.legal_actions[found[0]] if len(found) == 1 else None


def _named(reply: str, observation: ChessObservation) -> list[str]:
    """The legal moves that a reply names as a whole, else those that its words name and do not deny."""
    san, uci = observation.legal_actions, observation.legal_uci
    answer = final_answer(reply)
    found = find_moves(answer, san, uci) or find_moves(bare(answer), san, uci)
    if found:
        return [san[index] for index in found]
    words = list(islice(_MOVE.finditer(answer), MOST_MENTIONS + 1))
    if len(words) > MOST_MENTIONS:
        return []
    mentions = [Mention(*word.span(), san[index]) for word in words for index in find_moves(word[0], san, uci)]
    named = only_named(answer, mentions)
    several = sorted({mention.name for mention in mentions}, key=san.index)
    return [named] if named is not None else several if len(several) > 1 else []
