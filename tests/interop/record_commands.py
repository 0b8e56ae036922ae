"""Records the commands of the published program: `python -m tests.interop.record_commands` with its Python.

The file that it writes is what `tests/cli/test_published_commands.py` reads; that test needs no published package.
"""

import importlib
import json
from pathlib import Path
from typing import Any

import typer

RECORD = Path(__file__).parent / "recorded" / "commands.json"
COMMANDS = ("init", "build", "push", "validate", "fork", "serve", "import")


def recorded() -> dict[str, list[dict[str, Any]]]:
    """Return the recorded parameters of each command."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def parameters(app: typer.Typer) -> dict[str, list[dict[str, Any]]]:
    """Return the parameters of the commands of an application, in their order."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {name: [_parameter(param) for param in commands[name].params if param.name != "help"] for name in COMMANDS}


def _parameter(param: Any) -> dict[str, Any]:
    is_option = param.param_type_name == "option"
    return {
        "kind": param.param_type_name,
        "options": sorted(param.opts) if is_option else [],
        "is_flag": bool(getattr(param, "is_flag", False)),
        "is_repeated": bool(param.multiple),
        "is_required": bool(param.required),
    }


if __name__ == "__main__":
    published = importlib.import_module("openenv.cli.__main__")
    RECORD.write_text(json.dumps(parameters(published.app), indent=1) + "\n", encoding="utf-8")
