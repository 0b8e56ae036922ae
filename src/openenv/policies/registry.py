"""Creates policies by the names that the command line uses."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from openenv.core.utils import install_line
from openenv.policies.base import Policy
from openenv.policies.baselines import BlackjackChartPolicy, CatchPolicy, ConstantPolicy, RandomPolicy
from openenv.policies.conversations import ReplyRules
from openenv.policies.language_model import ChatEndpoint, LanguageModelPolicy
from openenv.policies.learning import LearningPolicy
from openenv.text.interface import TextInterface

ALWAYS = "always:"
LANGUAGE_MODEL = "llm:"


def _mcts(seed: int | None = None, text: TextInterface[Any, Any] | None = None, **options: Any) -> Policy:
    if find_spec("pyspiel") is None:
        raise ValueError(f"policy 'mcts' needs OpenSpiel in this process too: {install_line('openspiel')}")
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


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """How a language model behind an endpoint is asked; the names are those of the options."""

    temperature: float = 0.0
    max_tokens: int = 256
    timeout_s: float = 60.0
    api_key: str | None = None
    calls_functions: bool = True
    retries: int = 0


def policy_named(name: str, text: TextInterface[Any, Any], seed: int, options: EndpointOptions | None = None) -> Policy:
    """Return a policy by its name on the command line. Raises ValueError that lists the names."""
    if not name.startswith(LANGUAGE_MODEL):
        return make_policy(name, seed=seed, text=text)
    model, at, base_url = name.removeprefix(LANGUAGE_MODEL).partition("@")
    if not (model and at and base_url):
        raise ValueError(f"policy={name!r}: write llm:MODEL@URL, such as llm:qwen3@http://localhost:8001/v1")
    asked = options or EndpointOptions()
    endpoint = ChatEndpoint(
        base_url, model, api_key=asked.api_key, temperature=asked.temperature, max_tokens=asked.max_tokens,
        timeout_s=asked.timeout_s,
    )  # fmt: skip
    rules = ReplyRules(retries=asked.retries)
    return LanguageModelPolicy(model, text, endpoint, calls_functions=asked.calls_functions, rules=rules)
