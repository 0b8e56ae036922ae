"""Installed distributions, what they require, and the files that they have installed."""

import json
import posixpath
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from openenv.core.utils import PACKAGE_FOLDER
from openenv.hosting.images.image_files import ImageFiles
from openenv.hosting.images.machine_python import VERSION, add_libraries, is_program

ENVIRONMENT = "srv/openenv"
"""The virtual environment of an image."""
PACKAGES = f"{ENVIRONMENT}/lib/{VERSION}/site-packages"
OWN = "openenv-rl"
"""The distribution of this package."""
_LEFT_OUT = {"direct_url.json", "uv_build.json", "uv_cache.json"}
"""They name folders and files of this machine."""


def required_distributions(requirements: Iterable[str]) -> list[Distribution]:
    """The installed distributions of requirements such as `openenv-rl[openspiel]`, and all that those require.

    Raises ValueError for one that is not installed, or not in the version that is required.
    """
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    pending = [(_parsed(text), "what was asked for") for text in requirements]
    while pending:
        requirement, wanted_by = pending.pop()
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = _installed(requirement, wanted_by)
        for extra in {"", *requirement.extras} - {extra for known, extra in done if known == name}:
            done.add((name, extra))
            needed = (Requirement(text) for text in found[name].requires or ())
            pending += [(each, requirement.name) for each in needed if _applies(each, extra)]
    return [found[name] for name in sorted(found)]


def package_files(distributions: Iterable[Distribution], *present: ImageFiles) -> ImageFiles:
    """The files of distributions as part of an image's virtual environment, and the libraries that they load.

    They are those of each RECORD. Scripts are left out: they begin with the path of this machine's Python. present:
    what the image has already. Raises ValueError for a distribution in editable mode: its RECORD lists no modules.
    """
    files = ImageFiles()
    for each in distributions:
        if _is_editable(each):
            raise ValueError(f"{each.metadata['Name']} is installed in editable mode: install it without --editable")
        files.copies |= _recorded(each)
    add_libraries(files, [path for path in files.copies.values() if is_program(path)], *present)
    return files


def own_files() -> ImageFiles:
    """The package that runs, its metadata, and the interpreter's link in the image's virtual environment."""
    files = ImageFiles()
    is_metadata = f"{PACKAGES}/openenv_rl-"
    files.copies = {path: file for path, file in _recorded(distribution(OWN)).items() if path.startswith(is_metadata)}
    own = PACKAGE_FOLDER
    for package in (own, own.with_name("openenv_core")):
        files.add_tree(package, f"{PACKAGES}/{package.name}")
    files.links[f"{ENVIRONMENT}/bin/python"] = f"/usr/local/bin/{VERSION}"
    files.texts[f"{ENVIRONMENT}/pyvenv.cfg"] = "home = /usr/local/bin\ninclude-system-site-packages = false\n"
    return files


def is_own(found: Distribution) -> bool:
    """Whether a distribution is this package's."""
    return canonicalize_name(found.metadata["Name"]) == OWN


def _recorded(found: Distribution) -> dict[str, Path]:
    """The files of a distribution's RECORD that belong into an image, by their paths in it."""
    files = {}
    for file in found.files or ():
        path = posixpath.normpath(f"{PACKAGES}/{file.as_posix()}")
        source = Path(str(found.locate_file(file)))
        if path.startswith(f"{ENVIRONMENT}/") and source.is_file() and _belongs(file.parts):
            files[path] = source
    return files


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is no requirement of a Python package: {error}") from None


def _applies(requirement: Requirement, extra: str) -> bool:
    """Whether a requirement is one of this extra; one without an extra is of the empty one."""
    if requirement.marker is None:
        return not extra
    is_general = requirement.marker.evaluate({"extra": ""})
    return is_general if not extra else requirement.marker.evaluate({"extra": extra}) and not is_general


def _installed(requirement: Requirement, wanted_by: str) -> Distribution:
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        raise ValueError(
            f"{wanted_by} needs {requirement}, which is not installed: pip install '{requirement}'"
        ) from None
    if not requirement.specifier.contains(found.version, prereleases=True):
        raise ValueError(
            f"{wanted_by} needs {requirement}, but {found.version} is installed: pip install '{requirement}'"
        )
    return found


def _is_editable(found: Distribution) -> bool:
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _belongs(parts: tuple[str, ...]) -> bool:
    """Whether a file of a RECORD is wanted: no compiled module, no script, nothing that names this machine."""
    is_script = ".." in parts and parts[-2] in ("bin", "Scripts")
    return "__pycache__" not in parts and not is_script and parts[-1] not in _LEFT_OUT
