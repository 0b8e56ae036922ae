"""Small programming tasks: a function in words, a program that defines it, and arguments for its tests.

The programs are written with a space between all words, as a model with a vocabulary of words writes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

ALL = "all"
"""The name of the task that draws one of the others for each seed."""
_WORDS = ("apple", "level", "stone", "noon", "river", "queue", "Anna", "sky", "banana", "x")
_NUM_TESTS = 6


@dataclass(frozen=True)
class Problem:
    """A task with its constant."""

    name: str
    prompt: str
    solution: str
    """A program that passes the tests."""
    calls: tuple[str, ...]
    """The expressions of the tests."""


def _whole(rng: Random) -> str:
    return str(rng.randint(-50, 50))


def _natural(rng: Random) -> str:
    return str(rng.randint(0, 12))


def _two(rng: Random) -> str:
    return f"{rng.randint(1, 60)}, {rng.randint(1, 60)}"


def _word(rng: Random) -> str:
    return repr(rng.choice(_WORDS))


def _sentence(rng: Random) -> str:
    return repr(" ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 5))))


def _numbers(rng: Random) -> str:
    return str([rng.randint(-9, 9) for _ in range(rng.randint(1, 7))])


_Arguments = Callable[[Random], str]
_TABLE: Mapping[str, tuple[str, str, _Arguments]] = {
    "add": ("x plus {c}", "return x + {c}", _whole),
    "subtract": ("x minus {c}", "return x - {c}", _whole),
    "multiply": ("x times {c}", "return x * {c}", _whole),
    "remainder": ("the remainder of x divided by {c}", "return x % {c}", _whole),
    "greater": ("whether x is greater than {c}", "return x > {c}", _natural),
    "power": ("x to the power of {c}", "return x ** {c}", _natural),
    "even": ("whether x is even", "return x % 2 == 0", _whole),
    "absolute": ("the absolute value of x", "return abs ( x )", _whole),
    "digits": ("the sum of the digits of x", "return sum ( map ( int , str ( x ) ) )", _natural),
    "square_list": ("the squares of the numbers in the list x", "return [ n * n for n in x ]", _numbers),
    "total": ("the sum of the list x", "return sum ( x )", _numbers),
    "largest": ("the largest number of the list x", "return max ( x )", _numbers),
    "sorted": ("the list x in ascending order", "return sorted ( x )", _numbers),
    "positive": ("the positive numbers of the list x", "return [ n for n in x if n > 0 ]", _numbers),
    "reverse": ("the text x backwards", "return x [ : : -1 ]", _word),
    "length": ("the length of the text x", "return len ( x )", _word),
    "upper": ("the text x in capital letters", "return x . upper ( )", _word),
    "palindrome": ("whether the text x is the same backwards", "return x == x [ : : -1 ]", _word),
    "vowels": ("how many vowels the text x has", "return sum ( c in 'aeiouAEIOU' for c in x )", _word),
    "words": ("how many words the text x has", "return len ( x . split ( ) )", _sentence),
    "longest": ("the longest word of the text x", "return max ( x . split ( ) , key = len )", _sentence),
    "common": (
        "the greatest common divisor of x and y",
        "return max ( n for n in range ( 1 , x + 1 ) if x % n == 0 and y % n == 0 )",
        _two,
    ),
}
NAMES = tuple(_TABLE)


def make_problem(name: str, seed: int) -> Problem:
    """The task of a name and a seed. Raises KeyError for an unknown name."""
    rng = Random(seed)
    chosen = rng.choice(NAMES) if name == ALL else name
    described, body, arguments = _TABLE[chosen]
    prompt, solution = _texts(described, body, rng, parameters="x, y" if arguments is _two else "x")
    return Problem(chosen, prompt, solution, tuple(f"f({arguments(rng)})" for _ in range(_NUM_TESTS)))


def random_program(rng: Random) -> str:
    """The program of any task, with any constant."""
    described, body, arguments = _TABLE[rng.choice(NAMES)]
    return _texts(described, body, rng, parameters="x, y" if arguments is _two else "x")[1]


def expected_values(problem: Problem) -> list[Any]:
    """The values that the calls must have, computed by the solution in this process."""
    variables: dict[str, Any] = {}
    exec(problem.solution, variables)
    return [eval(call, variables) for call in problem.calls]


def _texts(described: str, body: str, rng: Random, parameters: str) -> tuple[str, str]:
    constant = rng.randint(2, 9)
    prompt = f"Write a function f({parameters}) that returns {described.format(c=constant)}."
    return prompt, f"def f ( {parameters.replace(',', ' ,')} ) : {body.format(c=constant)}"


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each small task, of all of them, and of an interpreter without a task."""
    return {"interpreter": {}, ALL: {"task": ALL}, **{name: {"task": name} for name in NAMES}}
