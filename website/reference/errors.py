"""The page of the errors: codes of the wire, and the classes that a client raises for them."""

from openenv.core import errors as tree
from website.source import doc_of, found
from website.tables import code, table

_MODULE = "openenv.core.errors"


def page() -> str:
    """The page."""
    codes = [each for each in _classes() if issubclass(each, tree.RequestRefused) and each is not tree.RequestRefused]
    others = [each for each in _classes() if not issubclass(each, tree.RequestRefused)]
    of_clients = [(code(each.__name__), _bases(each), _meaning(each)) for each in others]
    return "\n\n".join(
        [
            "# Error codes",
            f"A server sends the code of an error, and a client raises the class of that code, from `{_MODULE}`. All "
            "derive from `OpenEnvError`. A code that the client does not know becomes `SessionFault`.",
            "`refused` means that the request was wrong and nothing happened. `invalid` means that the environment or "
            "its server failed: the step has no outcome, and its episode counts nowhere.",
            "## Sent by a server",
            table(
                ("Code", "Class", "Validity", "Meaning"),
                [(code(each.code), code(each.__name__), each.validity, _meaning(each)) for each in codes],
            ),
            '`EXECUTION_ERROR` has the validity `refused` where its data has `"refused": true`: the environment\'s '
            "`step` has raised ValueError, which refuses the action.",
            "## Raised by a client alone",
            "These have no code: no response of a server stands behind them.",
            table(("Class", "Derives from", "Meaning"), of_clients),
            "[What can happen to a session](../sessions.md#what-can-happen) has the cases, and "
            "[when it fails](../when-it-fails.md) the remedies.",
        ]
    )


def _classes() -> list[type[tree.OpenEnvError]]:
    return [each for each in vars(tree).values() if isinstance(each, type) and issubclass(each, tree.OpenEnvError)]


def _bases(each: type) -> str:
    return ", ".join(code(base.__name__) for base in each.__bases__)


def _meaning(each: type) -> str:
    return doc_of(found(f"{_MODULE}.{each.__name__}")).text.replace("\n\n", " ")
