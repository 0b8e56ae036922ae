"""The files of this machine's Python for an image: interpreter, standard library, shared libraries and a shell."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from openenv.core.errors import ContainerFault
from openenv.hosting.images.image_files import ImageFiles

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
INTERPRETER = f"usr/local/bin/{VERSION}"
"""Where the interpreter is in an image. It finds its library by its own place, so that it may move."""
_LIBRARY = f"usr/local/{sys.platlibdir}/{VERSION}"
_WITHOUT = frozenset(
    {"test", "tests", "site-packages", "dist-packages", "idlelib", "turtledemo", "tkinter", "ensurepip", "lib2to3"}
    | {"lib-dynload"}
)
"""Folders of the standard library that no server needs, and those that are read apart."""
_UNUSED_EXTENSIONS = ("_tkinter", "_test", "_ctypes_test", "xx")
_USERS = "root:x:0:0::/root:/bin/sh\nopenenv:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
_GROUPS = "root:x:0:\nopenenv:x:1000:\nnogroup:x:65534:\n"
_DLOPENED = ("libgcc_s.so.1",)
"""Libraries that the C library loads when it needs them."""


def python_files() -> ImageFiles:
    """The interpreter that runs this, moved to /usr/local, with what it loads. Raises ContainerFault without `ldd`."""
    files = ImageFiles(folders={"tmp": 0o1777})
    program = Path(sys.executable).resolve()
    shell = Path("/bin/sh").resolve()
    files.copies[INTERPRETER] = program
    files.copies["usr/bin/sh"] = shell
    files.links |= {"usr/local/bin/python3": VERSION, "bin": "usr/bin"}
    files.texts |= {"etc/passwd": _USERS, "etc/group": _GROUPS}
    library = Path(sysconfig.get_path("stdlib"))
    files.add_tree(library, _LIBRARY, without=_WITHOUT | {path.name for path in library.glob("config-*")})
    extensions = [
        path for path in (library / "lib-dynload").glob("*.so") if not path.name.startswith(_UNUSED_EXTENSIONS)
    ]
    files.copies |= {f"{_LIBRARY}/lib-dynload/{path.name}": path for path in extensions}
    add_libraries(files, [program, shell, *extensions])
    for folder in ("lib", "lib64"):
        if any(path.startswith(f"usr/{folder}/") for path in files.copies):
            files.links[folder] = f"usr/{folder}"
    return files


def add_libraries(files: ImageFiles, programs: Iterable[Path], *present: ImageFiles) -> None:
    """Add the shared libraries of programs and extension modules that are neither among the files nor present.

    One from a folder that the loader does not search by itself goes beside the C library. Raises ContainerFault
    without `ldd`.
    """
    known = {path.resolve() for each in (files, *present) for path in each.copies.values()}
    found = _libraries([*programs, Path("/bin/sh")])
    beside_libc = next(_folder(path) for path in found if path.name.startswith("libc.so"))
    searched = {"usr/lib", "usr/lib64", beside_libc}
    extra = [path.with_name(name) for path in found if path.name.startswith("libc.so") for name in _DLOPENED]
    for path in (*found, *(path for path in extra if path.is_file())):
        if path.resolve() not in known:
            folder = _folder(path)
            files.copies[f"{folder if folder in searched else beside_libc}/{path.name}"] = path.resolve()


def is_program(path: Path) -> bool:
    """Whether a file is a program, shared library or extension module of this system."""
    if ".so" not in path.name and not os.access(path, os.X_OK):
        return False
    with path.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _libraries(programs: Iterable[Path]) -> list[Path]:
    """The paths at which the loader finds the libraries of programs, and the loader's own."""
    try:
        # its code is 1 where one of the files is no program with shared libraries
        command = ["ldd", *map(str, programs)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except FileNotFoundError:
        raise ContainerFault("there is no command 'ldd' on PATH. Install the programs of the C library") from None
    return sorted({Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)})


def _folder(library: Path) -> str:
    """Where a library is in an image, which has all of /lib below /usr."""
    folder = os.path.normpath(library.parent).lstrip("/")
    return folder if folder.startswith("usr/") else f"usr/{folder}"
