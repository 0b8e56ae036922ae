"""The reference of the package for Python, from its docstrings: a page for each part with the names that it has."""

import griffe

from website.source import Doc, doc_of, found, signature
from website.tables import code, table

PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "Clients": {
        "openenv": ("EnvClient", "SyncEnvClient", "GenericEnvClient", "GenericAction", "StepResult"),
        "openenv.core": ("MCPToolClient", "MCPClientBase"),
        "openenv.core.http_env_client": ("HTTPEnvClient",),
    },
    "Names and vectors": {
        "openenv": ("AutoEnv", "AutoAction", "make_vec"),
        "openenv.core.vector.env": ("VectorEnv",),
        "openenv.core.session_pool": ("SessionPool",),
    },
    "Environments": {
        "openenv": ("Environment", "Action", "Observation", "State"),
        "openenv.core": (
            *("MCPEnvironment", "CallToolAction", "CallToolObservation", "ListToolsAction", "ListToolsObservation"),
            *("Tool", "ToolError", "ToolErrorType", "RESERVED_TOOL_NAMES", "TaskProvider"),
            *("Transform", "CompositeTransform", "NullTransform", "ModelTokenizer"),
        ),
        "openenv.core.wire.boxes": ("Box",),
        "openenv.hosting.serving.settings": ("option",),
    },
    "Text": {
        "openenv": ("TextInterface",),
        "openenv.text.derived": ("DerivedText",),
        "openenv.text.reading": (),
    },
    "Servers": {
        "openenv": ("EnvironmentProgram", "create_app", "serve", "ServerConfig"),
        "openenv.core": (
            *("HTTPEnvServer", "create_fastapi_app", "ServerMode", "ConcurrencyConfig", "ServerCapacityStatus"),
            *("SessionInfo", "GetEndpointConfig", "WebInterfaceManager", "create_web_interface_app"),
        ),
        "openenv.auto.sandboxed_server": ("SandboxedServer",),
    },
    "Messages": {"openenv.core": (), "openenv": ()},
    "Containers and sandboxes": {
        "openenv.hosting.runtime": (),
        "openenv.hosting.sandbox.program": (),
        "openenv.hosting.sandbox.limits": ("SandboxLimits",),
        "openenv.hosting.sandbox.sandbox": ("SandboxHost", "Sandbox"),
    },
    "Rubrics": {"openenv.rubrics": ()},
    "Policies": {"openenv.policies": ()},
    "Evaluation": {"openenv.evaluation": (), "openenv.evaluation.plots": ("plot_summaries",)},
    "Training": {
        "openenv.rl.setup": (),
        "openenv.rl.config_file": ("load_config", "config_from_mapping"),
        "openenv.rl.loop": (),
        "openenv.rl.algorithm.advantages": (),
        "openenv.rl.algorithm.loss": (),
        "openenv.rl.algorithm.rewards": (),
        "openenv.rl.algorithm.replay_buffer": (),
        "openenv.rl.algorithm.trajectory": (),
    },
    "Agents": {
        "openenv.agents.endpoint.server": ("Endpoint",),
        "openenv.agents.endpoint.upstream": ("UpstreamModel",),
    },
    "Integrations": {
        "openenv.integrations.trl": (),
        "openenv.integrations.gymnasium": ("make",),
        "openenv.integrations.data": (),
        "openenv.integrations.dialects.as_verifiers": ("load_environment",),
        "openenv.integrations.opentelemetry": (),
    },
}
"""The pages: their modules, and names of each; none: all that the module publishes and no earlier page has."""


def pages() -> dict[str, str]:
    """The pages by their paths, in their order."""
    seen: set[str] = set()
    return {
        f"reference/api/{title.lower().replace(' ', '-')}.md": _page(title, modules, seen)
        for title, modules in PARTS.items()
    }


def _page(title: str, modules: dict[str, tuple[str, ...]], seen: set[str]) -> str:
    """seen: paths of definitions that an earlier page has, to which this one adds its own."""
    blocks = [f"# {title}"]
    for module, names in modules.items():
        members = {name: found(f"{module}.{name}") for name in names or _published(module)}
        new = {
            name: each for name, each in members.items() if each.path not in seen and each.path.startswith("openenv.")
        }
        seen |= {each.path for each in new.values()}
        blocks += [_entry(member, name, module) for name, member in new.items()]
    return "\n\n".join(block.strip() for block in blocks if block.strip()) + "\n"


def _published(module: str) -> list[str]:
    """The names of `__all__`, or else the public classes and functions that the module defines."""
    of_module = found(module)
    if of_module.exports:
        return sorted(str(name) for name in of_module.exports)
    return [
        name
        for name, member in of_module.members.items()
        if not name.startswith("_") and not member.is_alias and (member.is_class or member.is_function)
    ]


def _entry(member: griffe.Object, name: str, module: str) -> str:
    """A class with its attributes and methods, a function, or a constant."""
    head = f"## {code(name)}\n\n`from {module} import {name}`"
    match member:
        case griffe.Class():
            return f"{head}\n\n{_class(member, name)}"
        case griffe.Function():
            return f"{head}\n\n{_function(member, name)}"
        case griffe.Attribute():
            return f"{head}\n\n{_value(member)}"
    raise TypeError(f"{member.path}: a {member.kind.value} cannot be shown")


def _class(member: griffe.Class, name: str) -> str:
    parts = [doc_of(member).markdown()]
    if bases := [str(base) for base in member.bases if not str(base).startswith(("Generic", "object"))]:
        parts.append(f"Bases: {', '.join(code(base) for base in bases)}.")
    if isinstance(made := member.members.get("__init__"), griffe.Function):
        parts.append(_function(made, name))
    if fields := _fields(member):
        parts.append(fields)
    for method, each in member.members.items():
        if isinstance(each, griffe.Function) and not method.startswith("_") and each.docstring is not None:
            parts.append(f"### {code(f'{name}.{method}')}\n\n{_function(each, method)}")
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _fields(member: griffe.Class) -> str:
    """The table of the attributes that have a type or a docstring: fields, constants and properties."""
    explained = [
        (name, each)
        for name, each in member.members.items()
        if isinstance(each, griffe.Attribute) and not name.startswith("_")
    ]
    rows = [
        (code(name), code(each.annotation) if each.annotation is not None else "", _default(each), _meaning(each))
        for name, each in explained
        if each.annotation is not None or _meaning(each)
    ]
    return table(("Attribute", "Type", "Default", "Meaning"), rows)


def _meaning(each: griffe.Attribute) -> str:
    """What a docstring explains, or the description of a pydantic field."""
    if each.docstring is not None:
        return doc_of(each).text
    value = each.value
    if isinstance(value, griffe.ExprCall):
        for argument in value.arguments:
            if isinstance(argument, griffe.ExprKeyword) and argument.name == "description":
                return str(argument.value).strip("'\"")
    return ""


def _default(each: griffe.Attribute) -> str:
    text = "" if each.value is None or "property" in each.labels else str(each.value)
    return code(text) if text and "(" not in text and len(text) < 40 else ""


def _function(member: griffe.Function, name: str) -> str:
    doc: Doc = doc_of(member)
    return f"```python\n{signature(member, name)}\n```\n\n{doc.markdown()}"


def _value(member: griffe.Attribute) -> str:
    shown = f"```python\n{member.name} = {member.value}\n```\n\n" if len(str(member.value)) < 400 else ""
    return f"{shown}{doc_of(member).markdown()}"
