"""The files of this Python that programs in a sandbox may see: the standard library, and chosen packages."""

import re
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from openenv.hosting.sandbox.box_spec import BoxSpec


def with_python(spec: BoxSpec, packages: Iterable[str] = ()) -> BoxSpec:
    """The spec with the files of its Python, and with these installed distributions and what they require.

    No other package can be seen, among them the server's own code. PYTHONPATH names the folders of the packages.
    Raises ValueError for a distribution that is not installed.
    """
    entries = {entry for name in packages for entry in _entries(name)}
    prefix = str(Path(spec.python).parents[1])
    readable = [] if prefix.startswith("/usr") else [prefix]
    folders = {
        str(path) for root in {"/usr", "/usr/local", prefix} for path in Path(root).glob("lib/python3*/*-packages")
    }
    path = ":".join(sorted({str(Path(entry).parent) for entry in entries}))
    return replace(
        spec,
        readable=(*spec.readable, *readable),
        packages=(*spec.packages, *sorted(entries)),
        hidden=(*spec.hidden, *sorted(folders)),
        environment={**({"PYTHONPATH": path} if path else {}), **spec.environment},
    )


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of these distributions and of what they require, by name."""
    return {found.metadata["Name"]: found.version for name in packages for found in _with_required(name)}


def _entries(name: str) -> set[str]:
    """The files and folders of a distribution, and of those it requires, in their folder of packages."""
    found: set[str] = set()
    for package in _with_required(name):
        root = Path(str(package.locate_file("")))
        tops = {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}
        found |= {str(root / top) for top in tops if (root / top).exists()}
    return found


def _with_required(name: str) -> list[Distribution]:
    """A distribution and what it requires without extras. Raises ValueError if the first is not installed."""
    found: dict[str, Distribution] = {}
    pending = [name]
    while pending:
        wanted = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if wanted in found:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            if not found:
                raise ValueError(f"packages: {name!r} is not installed. Install it, or leave it out.") from None
            continue  # it is for another system or version of Python
        for requirement in found[wanted].requires or ():
            if "extra ==" not in requirement:
                pending.append(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    return list(found.values())
