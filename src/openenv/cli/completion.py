"""What the shell completes: names of environments and of policies."""

from openenv.auto.discovery import environments
from openenv.policies.registry import policy_names


def environment_names(incomplete: str) -> list[tuple[str, str]]:
    """The environments of `openenv envs` that begin so, each with its description."""
    return [(name, info.description) for name, info in environments().items() if name.startswith(incomplete)]


def policy_lists(incomplete: str) -> list[str]:
    """Policies separated by commas, of which the last begins so."""
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in policy_names() if name.startswith(begun)]
