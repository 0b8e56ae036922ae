"""Reads moves as people write them: SAN or UCI, in any case and with any marks, where only one legal move is meant."""

from collections.abc import Iterator, Sequence

_MARKS = str.maketrans("", "", "+#!?=-xX: ")
"""Marks that a move can be written with or without: check, capture, promotion, praise."""
_LISTED = 60


def find_moves(text: str, san: Sequence[str], uci: Sequence[str]) -> list[int]:
    """The indices of the legal moves that a text can mean: one where it is a move, several where it is ambiguous.

    san, uci: the legal moves in both notations, in the same order. Case counts only where moves differ by it, as Bc3
    and bxc3 do.
    """
    for names in (san, uci):
        if text in names:
            return [names.index(text)]
    wanted = _plain(text)
    forms = [tuple(_forms(*names)) for names in zip(san, uci, strict=True)]
    found = [index for index, known in enumerate(forms) if wanted in known]
    if found:
        return found
    folded = wanted.casefold()
    found = [index for index, known in enumerate(forms) if folded in map(str.casefold, known[:2])]
    return found or [index for index, known in enumerate(forms) if folded in map(str.casefold, known)]


def read_move(text: str, san: Sequence[str], uci: Sequence[str]) -> int:
    """The index of the legal move that a text names. Raises ValueError, with the legal moves, if it names none."""
    found = find_moves(text, san, uci)
    if not found:
        more = f" and {len(san) - _LISTED} more" if len(san) > _LISTED else ""
        raise ValueError(f"move={text!r:.60} is not legal. Legal are: {', '.join(san[:_LISTED])}{more}.")
    if len(found) > 1:
        raise ValueError(f"move={text!r} is ambiguous. Write {' or '.join(san[index] for index in found)}.")
    return found[0]


def _plain(text: str) -> str:
    """A move without its marks. Castling with zeros gets letters."""
    plain = text.translate(_MARKS)
    return plain.replace("0", "O") if plain in ("00", "000") else plain


def _forms(san: str, uci: str) -> Iterator[str]:
    """All ways to write a legal move, without marks, its names in UCI and SAN first.

    The square that it leaves can be named where it need not be.
    """
    yield uci
    yield _plain(san)
    if san.startswith("O"):
        return
    start, end, promoted = uci[:2], uci[2:4], uci[4:].upper()
    if san[0] not in "KQRBN":
        yield f"{start}{end}{promoted}"
        return
    for named in ("", start[0], start[1], start):
        yield f"{san[0]}{named}{end}"
