"""Draws a position for the page at `/web`, without scripts."""

from openenv.envs.chess_env.models import Color
from openenv.envs.chess_env.server.fen import FILES, pieces_of

_PIECES = dict(zip("KQRBNPkqrbnp", "♔♕♖♗♘♙♚♛♜♝♞♟", strict=True))
_COLORS = ("dark", "light")
"""Of squares, by the parity of file and rank: a1 is dark."""
_STYLE = """<style>
table { border-collapse: collapse; font: 2rem/1 sans-serif; }
td { color: #1c2024; height: 2.8rem; text-align: center; width: 2.8rem; }
td.light { background: #f0e3c9; } td.dark { background: #b98f66; }
th { color: #596068; font-size: .8rem; font-weight: 400; padding: .2rem; }
</style>"""


def drawn(fen: str, color: Color) -> str:
    """A position as HTML, from the side of a colour. fen: in Forsyth-Edwards notation."""
    pieces = pieces_of(fen)
    files = range(8) if color == "white" else range(7, -1, -1)
    rows = ""
    for rank in reversed(files):
        shown = [(_COLORS[(file + rank) % 2], _PIECES.get(pieces.get((file, rank), ""), "")) for file in files]
        cells = "".join(f'<td class="{ground}">{piece}</td>' for ground, piece in shown)
        rows += f"<tr><th scope=row>{rank + 1}</th>{cells}</tr>"
    names = "".join(f"<th scope=col>{FILES[file]}</th>" for file in files)
    return f"{_STYLE}<table>{rows}<tr><th></th>{names}</tr></table>"
