"""The files of an image by their paths in it, written as a tar without users, times of access, or hard links."""

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class ImageFiles:
    """Files by their path in the image, which has no leading slash. Each path is there once."""

    copies: dict[str, Path] = field(default_factory=dict)
    """Files of this machine. A symbolic link stands for the file that it leads to."""
    texts: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Symbolic links and where they lead."""
    folders: dict[str, int] = field(default_factory=dict)
    """Directories that are empty or of which the mode matters, and their modes."""

    def write(self, archive: tarfile.TarFile, folder: str) -> None:
        """Add everything below a folder of the archive. All belongs to root and may be read by each user."""
        for path, mode in sorted(self.folders.items()):
            archive.addfile(_entry(f"{folder}/{path}", type=tarfile.DIRTYPE, mode=mode))
        for path, source in sorted(self.copies.items()):
            status = source.stat()
            mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
            info = _entry(f"{folder}/{path}", mode=mode, mtime=int(status.st_mtime), size=status.st_size)
            with source.open("rb") as content:
                archive.addfile(info, content)
        for path, text in sorted(self.texts.items()):
            data = text.encode()
            archive.addfile(_entry(f"{folder}/{path}", size=len(data)), io.BytesIO(data))
        for path, target in sorted(self.links.items()):
            archive.addfile(_entry(f"{folder}/{path}", type=tarfile.SYMTYPE, linkname=target))

    def add_tree(self, source: Path, path: str, *, without: frozenset[str] = frozenset()) -> None:
        """Add the files below a directory of this machine.

        Hidden files, compiled modules and the folders named in `without` are left out. Raises ValueError for a
        symbolic link that leads out of the directory: what it leads to was not asked for.
        """
        root = source.resolve()
        for file in _visible_files(source, without):
            if not file.resolve().is_relative_to(root):
                raise ValueError(
                    f"{file} is a link to {file.resolve()}, outside of {source}: remove it, or copy the file"
                )
            self.copies[f"{path}/{file.relative_to(source)}"] = file


def _visible_files(source: Path, without: frozenset[str]) -> Iterator[Path]:
    left_out = without | {"__pycache__"}
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in left_out and not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and (Path(folder) / name).is_file():
                yield Path(folder) / name


def _entry(path: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    for name, value in fields.items():
        setattr(info, name, value)
    return info
