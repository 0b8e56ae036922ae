"""Names of tools when an agent's program has tools of its own."""

from collections.abc import Collection

from openenv.core.env_server.mcp_types import RESERVED_TOOL_NAMES, Tool


def resolve_tool_conflicts(
    env_tools: list[Tool], harness_builtin_tools: Collection[str], prefix: str = "env_"
) -> list[Tool]:
    """Copies of the environment's tools, those with a name that the harness uses too with `prefix` in front of it.

    Raises ValueError for a reserved name, two tools of one name, and a name that is taken with the prefix, too.
    """
    names = [tool.name for tool in env_tools]
    for name in names:
        if name in RESERVED_TOOL_NAMES:
            raise ValueError(f"tool {name!r}: this name is reserved for the program that runs the episode. Rename it")
        if names.count(name) > 1:
            raise ValueError(f"tool {name!r}: two tools have this name. Rename one of them")
    resolved = []
    for tool in env_tools:
        name = tool.name
        if name in harness_builtin_tools:
            renamed = prefix + name
            if renamed in harness_builtin_tools or renamed in names:
                raise ValueError(
                    f"tool {name!r}: the harness has a tool of this name, and {renamed!r} is taken, too. Rename "
                    "the tool, or give another prefix"
                )
            name = renamed
        resolved.append(tool.model_copy(update={"name": name}))
    return resolved
