"""The server's side of an environment, from its source: success, resets, and the options of the server."""

import ast
from pathlib import Path

import griffe

from openenv.envs.catalog import CatalogEntry
from website.source import doc_of, found, package
from website.tables import code, table

_OF_ALL = ("seed", "episode_id", "self", "kwargs")
"""Parameters that every reset has."""


class ServerSource:
    """The server's side of an environment, from its source alone: its libraries need not be installed."""

    def __init__(self, entry: CatalogEntry) -> None:
        self._app = found(entry.server)
        call = _program_call(Path(str(self._app.filepath)))
        self._settings = ast.unparse(call.args[1]) if len(call.args) > 1 else None
        environment = self._member(ast.unparse(call.args[0]))
        assert isinstance(environment, griffe.Class), environment
        self.environment = environment

    def _member(self, name: str) -> griffe.Object:
        member = package()[f"{self._app.path.removeprefix('openenv.')}.{name}"]
        return member.final_target if member.is_alias else member

    def success(self) -> str:
        """The return from which an episode is a success, where the class declares it."""
        declared = self.environment.members.get("success_return")
        if declared is None:
            return "The class declares no `success_return`: results are mean returns, unless a reset declares one."
        if str(declared.value) == "ANY_POSITIVE":
            return "An episode is a success where its return is above 0; a return of 0 is a draw."
        return f"An episode is a success from a return of {code(declared.value)} on."

    def reset(self) -> str:
        """The keywords of a reset, and what it does."""
        function = next(
            found
            for name in ("reset", "reset_async")
            if isinstance(found := self.environment.members.get(name), griffe.Function)
        )
        rows = [
            (code(each.name), code(each.annotation), code(each.default))
            for each in function.parameters
            if each.name not in _OF_ALL and each.kind is not griffe.ParameterKind.var_keyword
        ]
        return f"{doc_of(function).markdown()}\n\n{table(('Keyword', 'Type', 'Default'), rows)}"

    def options(self) -> str:
        """The options of the server that are the environment's own."""
        if self._settings is None:
            return "The server has the options of every server, and none of its own."
        settings = self._member(self._settings)
        assert isinstance(settings, griffe.Class), settings
        return _settings_table(settings, self._app.path.split(".")[2])


def _program_call(path: Path) -> ast.Call:
    """The call of `EnvironmentProgram` in an application. Raises StopIteration where there is none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "EnvironmentProgram"
    )


def _settings_table(settings: griffe.Class, environment: str) -> str:
    """A row for each field that is an option. environment: its folder, from which variables have their names."""
    rows = [_row(name, each, environment) for name, each in _fields(settings).items()]
    head = ("Option", "Variable", "Type", "Default", "Meaning")
    return f"{doc_of(settings).text}\n\n{table(head, rows)}"


def _fields(settings: griffe.Class) -> dict[str, griffe.Attribute]:
    """The fields that call `option`, those of the classes that it derives from first."""
    found: dict[str, griffe.Attribute] = {}
    for base in settings.resolved_bases:
        target = base.final_target if base.is_alias else base
        if isinstance(target, griffe.Class):
            found |= _fields(target)
    for name, member in settings.members.items():
        if isinstance(member, griffe.Attribute) and str(member.value).startswith("option("):
            found[name] = member
    return found


def _row(name: str, each: griffe.Attribute, environment: str) -> tuple[str, str, str, str, str]:
    call = ast.parse(str(each.value), mode="eval").body
    assert isinstance(call, ast.Call)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    option = str(_literal(given["name"], each)) if "name" in given else name
    variable = f"{environment.removesuffix('_env')}_{option}".upper().replace("-", "_")
    if "variable" in given:
        variable = str(_literal(given["variable"], each))
    default = _literal(call.args[0], each)
    unset = _literal(given["unset"], each) if "unset" in given else "none"
    shown = unset if default in (None, "", (), [], {}) else code(default)
    return (
        code(f"--{option.replace('_', '-')}"),
        code(variable),
        code(each.annotation),
        str(shown),
        str(_literal(call.args[1], each)),
    )


def _literal(node: ast.expr, each: griffe.Attribute) -> object:
    """The value of an expression: a literal, or a constant of the module; otherwise its source."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    text = ast.unparse(node)
    constant = each.module.members.get(text)
    if constant is not None:
        target = constant.final_target if constant.is_alias else constant
        if isinstance(target, griffe.Attribute) and target.value is not None:
            return _literal(ast.parse(str(target.value), mode="eval").body, target)
    return text
