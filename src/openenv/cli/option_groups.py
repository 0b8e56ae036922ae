"""Options of a command in groups: a parameter that is a dataclass stands for an option of each of its fields.

@dataclass(frozen=True, kw_only=True)
class PageOptions:
    port: Annotated[int, typer.Option(help="Serve the page on this port.")] = 8090

@with_option_groups
def runs(folder: Path = typer.Argument(Path("runs")), page: PageOptions = PageOptions()) -> None: ...
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: with the fields of its groups in their place."""
    kinds = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if dataclasses.is_dataclass(kind)}

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        command(**values)

    shown = [
        option
        for name, parameter in inspect.signature(command).parameters.items()
        for option in (_options(kinds[name]) if name in groups else [parameter.replace(kind=parameter.KEYWORD_ONLY)])
    ]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def _options(group: Any) -> list[inspect.Parameter]:
    """The fields of a group as parameters."""
    kinds = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
            annotation=kinds[field.name],
        )
        for field in dataclasses.fields(group)
    ]
