"""Creates policies by the names that the command line uses."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openenv.policies.base import Policy
from openenv.policies.baselines import ConstantPolicy, RandomPolicy
from openenv.policies.conversations import ReplyRules
from openenv.policies.declared import declared_names, declared_policy
from openenv.policies.language_model import ChatEndpoint, LanguageModelPolicy
from openenv.policies.learning import LearningPolicy
from openenv.text.interface import History, TextInterface

ALWAYS = "always:"
LANGUAGE_MODEL = "llm:"


_GENERAL: Mapping[str, Callable[..., Policy]] = {
    "random": RandomPolicy,
    "stay": lambda seed=None, text=None: ConstantPolicy("stay", otherwise=1, text=text),
    "learning": LearningPolicy,
}
"""Those that play any environment. The action named stay is number 1 where actions have no names."""


def policy_names() -> list[str]:
    """The names that `make_policy` knows: of policies for any environment, and of those that environments declare."""
    return [*_GENERAL, *declared_names()]


def make_policy(
    name: str, *, seed: int | None = None, text: TextInterface[Any, Any] | None = None, **options: Any
) -> Policy:
    """Create the policy of that name; `always:stand` always chooses the action of that name.

    Args:
        seed: equal seeds give equal choices.
        text: the environment's text interface, which policies for any environment need where observations have no
            `legal_actions`.
        options: keywords of the policy's class or function.

    Raises:
        ValueError: for an unknown name, an option that the policy does not accept, or a policy whose library is not
            installed.
    """
    if name.startswith(ALWAYS) and name != ALWAYS:
        return ConstantPolicy(name.removeprefix(ALWAYS), text=text)
    try:
        policy = (
            _GENERAL[name](seed=seed, text=text, **options)
            if name in _GENERAL
            else declared_policy(name, seed, **options)
        )
    except TypeError as error:
        raise ValueError(f"policy {name!r} does not accept these options: {error}") from error
    if policy is None:
        near = difflib.get_close_matches(name, policy_names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"policy={name!r} is unknown.{hint} There are: {', '.join(policy_names())}, {ALWAYS}ACTION.")
    return policy


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """How a language model behind an endpoint is asked; the names are those of the options."""

    temperature: float = 0.0
    max_tokens: int = 256
    timeout_s: float = 60.0
    api_key: str | None = None
    calls_functions: bool = True
    retries: int = 0
    history: History | None = None


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
    return LanguageModelPolicy(
        model, text, endpoint, calls_functions=asked.calls_functions, history=asked.history, rules=rules
    )
