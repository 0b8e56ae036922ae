"""Boards of grid games, from OpenSpiel's text: cells with spaces between, and the labels by which moves name them."""


def ranks_and_files(text: str) -> str:
    """A board of OpenSpiel whose lines are a rank's label and its cells, such as `8bb.b`, and last ` abcd`."""
    return "\n".join(f"{line[0]} {' '.join(line[1:])}" for line in _board_lines(text))


def go_board(text: str) -> str:
    """A board of go, in the lower case of its moves: x is black, o is white. The points that white gets are below."""
    header, *rest = text.strip().lower().splitlines()
    board = (f"{line[:2]} {' '.join(line[3:].replace('+', '.'))}" for line in rest if line)
    return "\n".join([*board, f"komi {header.split('komi=')[1].split(',')[0]}"])


def othello_board(text: str) -> str:
    """A board of othello, with each label once."""
    *ranks, files = text.splitlines()[2:11]
    return "\n".join([*(rank[:17].replace("-", ".") for rank in ranks), files.rstrip()])


def numbered_columns(text: str) -> str:
    """Rows of cells, and the numbers of the columns below them."""
    rows = text.split()
    numbers = [str(number) for number in range(len(rows[0]))]
    width = len(numbers[-1])
    return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in (*rows, numbers))


def named_cells(text: str) -> str:
    """Rows of cells, in which a free one, `.`, has its name: the column's letter and the row's number, a1 first."""
    rows = enumerate(text.split(), start=1)
    lines = (" ".join(_named(cell, f"{chr(97 + x)}{y}") for x, cell in enumerate(row)) for y, row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _named(cell: str, name: str) -> str:
    return name if cell == "." else cell.ljust(len(name))


def slanted_rows(text: str) -> str:
    """A board of hex, whose rows are shifted: the number of each row, and the letters of the columns below."""
    lines = [line.rstrip() for line in text.splitlines()]
    rows = [f"{number:>2} {line}" for number, line in enumerate(lines, start=1)]
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(lines[0].split())]
    return "\n".join([*rows, f"{' ' * (len(lines) + 3)}{' '.join(letters)}"])


def _board_lines(text: str) -> list[str]:
    """The lines up to the first empty one."""
    return text.strip("\n").split("\n\n")[0].splitlines()
