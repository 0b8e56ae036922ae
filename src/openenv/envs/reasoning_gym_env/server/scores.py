"""Scores of answers by the datasets' own scorers, where these can be trusted with any text.

Nine scorers evaluate the answer as Python, and some give credit for text that is no answer. The checks here come
before them.
"""

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from reasoning_gym.algorithmic import binary_matrix, spiral_matrix, string_insertion
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.games import n_queens

from openenv.text.mentions import plain_signs

for _module in (binary_matrix, n_queens, spiral_matrix, string_insertion):
    vars(_module)["eval"] = ast.literal_eval  # they evaluate the answer, to read a list in it

_EXPRESSIONS = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""Datasets whose scorers give the answer to sympy, which evaluates it as Python."""
_TOKEN = re.compile(r"[A-Za-z]+(?![0-9_])|(?:\d+\.?\d*|\.\d+)(?![A-Za-z_\d.])|\*\*|[-+*/(),\s]")
_FUNCTIONS = frozenset(
    {"Abs", "acos", "asin", "atan", "cos", "cosh", "cot", "csc", "exp", "log", "sec", "sin", "sinh", "sqrt", "tan",
     "tanh"}
)  # fmt: skip
_CONSTANTS = frozenset({"pi"})
_LARGEST_EXPONENT = 200
_LOGIC = re.compile(r"[A-Z∧∨→↔¬()\s]+")
_MOST_NESTED = 40
_PROBABILITY = re.compile(r"[-+]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][-+]?\d{1,2}|/\d{1,40})?")
"""Of few digits: `1e999999999` would be computed."""
_TOLERANCE = 1e-4
"""Of the library, for probabilities."""


def safe_score(name: str, dataset: Any, answer: str, entry: Mapping[str, Any]) -> float:
    """The score of an answer, 0 to 1; 0 where the scorer fails. It evaluates nothing but plain expressions.

    Each kind of minus is `-`, unless the right answer has another one.
    """
    check = _CHECKS.get(name)
    reference = str(entry["answer"])
    answer = plain_signs(answer) if plain_signs(reference) == reference else answer
    try:
        if name in _EXPRESSIONS and not is_plain_expression(answer):
            return 0.0
        if check is not None and not check(answer, entry):
            return 0.0
        has_own_scorer = type(dataset).score_answer is not ProceduralDataset.score_answer
        if not has_own_scorer and not _contains_apart(answer, entry["answer"]):
            return 0.0
        score = float(dataset.score_answer(answer, entry))
    except Exception:  # noqa: BLE001 - border: scorers raise anything for text that they do not expect
        return 0.0
    return min(1.0, max(0.0, score)) if score == score else 0.0


def is_plain_expression(text: str) -> bool:
    """Whether a text is arithmetic of numbers, variables of one letter and functions of analysis, and is quick.

    Numbers may have exponents of at most 200. It has no attributes, other calls, quotation marks or indices.
    """
    if "".join(_TOKEN.findall(text)) != text:
        return False
    names = set(re.findall(r"[A-Za-z]+", text))
    if any(len(name) > 1 and name not in _FUNCTIONS | _CONSTANTS for name in names):
        return False
    try:
        return _is_quick(ast.parse(text.strip(), mode="eval").body, _MOST_NESTED)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _is_quick(node: ast.AST, depth: int) -> bool:
    if depth == 0 or isinstance(node, ast.Tuple):
        return False
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS):
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        if not _has_name(node.right) and not _is_small_number(node.right):
            return False
        if not _has_name(node.left) and any(isinstance(part, ast.Pow) for part in ast.walk(node.left)):
            return False
    return all(_is_quick(child, depth - 1) for child in ast.iter_child_nodes(node))


def _has_name(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Name) for part in ast.walk(node))


def _is_small_number(node: ast.AST) -> bool:
    """Whether it is a number or a quotient of two, each at most 200."""
    if isinstance(node, ast.UnaryOp):
        return _is_small_number(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return (
            isinstance(node.left, ast.Constant | ast.UnaryOp)
            and _is_small_number(node.left)
            and _is_small_number(node.right)
        )
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value <= _LARGEST_EXPONENT


def _contains_apart(answer: str, reference: str) -> bool:
    """Whether the reference stands in the answer by itself. The library finds 3 in -3, 3.5, 1/3 and 1,300 too."""
    return re.search(rf"(?<![\w.\-/])(?<!\d,){re.escape(reference)}(?![\w/]|[.,]\d)", answer) is not None


def _is_same_word(answer: str, entry: Mapping[str, Any]) -> bool:
    """The library compares whether both texts are empty."""
    return answer.strip().lower() == str(entry["answer"]).lower()


def _is_logic(answer: str, entry: Mapping[str, Any]) -> bool:
    """The library takes any other text for a variable."""
    return _LOGIC.fullmatch(answer) is not None


def _is_one_word_of_equal_length(answer: str, entry: Mapping[str, Any]) -> bool:
    """The library compares letter by letter, and any text has some in place."""
    return len(answer.strip()) == len(entry["answer"]) and " " not in answer.strip()


def _is_near(answer: str, entry: Mapping[str, Any]) -> bool:
    """The library gives 0 the full score for 0.3125, which begins with it."""
    given = answer.replace(",", "").strip()
    if _PROBABILITY.fullmatch(given) is None:
        return False
    return abs(Fraction(given) - Fraction(entry["answer"].replace(",", ""))) <= _TOLERANCE


def _is_finite(answer: str, entry: Mapping[str, Any]) -> bool:
    """The library takes the distance of `nan` from any number for 0, and gives it the full score."""
    return re.search("nan|inf", answer, re.IGNORECASE) is None


_CHECKS: Mapping[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "coin_flip": _is_near,
    "complex_arithmetic": _is_finite,
    "game_of_life_halting": _is_same_word,
    "propositional_logic": _is_logic,
    "spell_backward": _is_one_word_of_equal_length,
}
"""What an answer must be to be scored at all."""
