"""Policies by name, as the command line names them."""

import difflib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from openenv.policies.base import Policy
from openenv.policies.blackjack import BlackjackChartPolicy
from openenv.policies.catch import CatchPolicy
from openenv.policies.constant import ConstantPolicy
from openenv.policies.learning import LearningPolicy
from openenv.policies.random import RandomPolicy

ALWAYS = "always:"


def _mcts(seed: int | None = None, **options: Any) -> Policy:
    if find_spec("pyspiel") is None:
        raise ValueError("policy 'mcts' needs OpenSpiel on this side too: pip install 'openenv-rl[openspiel]'.")
    from openenv.policies.mcts import MCTSPolicy  # heavy: loads OpenSpiel

    return MCTSPolicy(seed, **options)


POLICIES: dict[str, tuple[Callable[..., Policy], str]] = {
    "random": (RandomPolicy, "each legal action equally often"),
    "stay": (lambda seed=None: ConstantPolicy("stay", otherwise=1), "always the action named stay, or number 1"),
    "smart": (lambda seed=None, **options: CatchPolicy(**options), "perfect play of catch"),
    "learning": (LearningPolicy, "a table of action values, learnt from reward while it plays"),
    "chart": (lambda seed=None: BlackjackChartPolicy(), "the textbook chart of blackjack"),
    "mcts": (_mcts, "tree search, in games where nothing is hidden"),
}
"""How each policy is made, and one line about it."""


def make_policy(name: str, *, seed: int | None = None, **options: Any) -> Policy:
    """The policy of that name; `always:stand` always takes the action of that name.

    seed: equal seeds choose equally. options: keyword arguments of the policy's class. Raises ValueError for an unknown
    name, an option that the policy does not take, or a policy whose library is missing.
    """
    if name.startswith(ALWAYS) and name != ALWAYS:
        return ConstantPolicy(name.removeprefix(ALWAYS))
    if name not in POLICIES:
        near = difflib.get_close_matches(name, POLICIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"policy={name!r} is not known.{hint} There are: {', '.join(POLICIES)}, {ALWAYS}ACTION.")
    try:
        return POLICIES[name][0](seed=seed, **options)
    except TypeError as error:
        raise ValueError(f"policy {name!r} does not take these options: {error}") from error
