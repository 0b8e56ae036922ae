"""Creates policies by the names that the command line uses."""

import difflib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from openenv.core.text_interface import TextInterface
from openenv.policies.base import Policy
from openenv.policies.baselines import BlackjackChartPolicy, CatchPolicy, ConstantPolicy, RandomPolicy
from openenv.policies.learning import LearningPolicy

ALWAYS = "always:"


def _mcts(seed: int | None = None, text: TextInterface[Any, Any] | None = None, **options: Any) -> Policy:
    if find_spec("pyspiel") is None:
        raise ValueError("policy 'mcts' needs OpenSpiel in this process too: pip install 'openenv-rl[openspiel]'.")
    from openenv.policies.mcts import MCTSPolicy  # heavy: loads OpenSpiel

    return MCTSPolicy(seed, **options)


POLICIES: dict[str, tuple[Callable[..., Policy], str]] = {
    "random": (RandomPolicy, "each legal action with the same probability"),
    "stay": (
        lambda seed=None, text=None: ConstantPolicy("stay", otherwise=1, text=text),
        "always the action named stay, or number 1",
    ),
    "smart": (lambda seed=None, text=None, **options: CatchPolicy(**options), "perfect play of catch"),
    "learning": (LearningPolicy, "a table of action values, learned from rewards during play"),
    "chart": (lambda seed=None, text=None: BlackjackChartPolicy(), "the textbook chart of blackjack"),
    "mcts": (_mcts, "tree search, in games of perfect information"),
}
"""Factory and one-line description of each policy."""


def make_policy(
    name: str, *, seed: int | None = None, text: TextInterface[Any, Any] | None = None, **options: Any
) -> Policy:
    """Create the policy of that name; `always:stand` always chooses the action of that name.

    seed: equal seeds give equal choices. text: the environment's text interface, which policies for any environment
    need where observations have no `legal_actions`. options: keyword arguments of the policy's class. Raises ValueError
    for an unknown name, an option that the policy does not accept, or a policy whose library is not installed.
    """
    if name.startswith(ALWAYS) and name != ALWAYS:
        return ConstantPolicy(name.removeprefix(ALWAYS), text=text)
    if name not in POLICIES:
        near = difflib.get_close_matches(name, POLICIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"policy={name!r} is unknown.{hint} There are: {', '.join(POLICIES)}, {ALWAYS}ACTION.")
    try:
        return POLICIES[name][0](seed=seed, text=text, **options)
    except TypeError as error:
        raise ValueError(f"policy {name!r} does not accept these options: {error}") from error
