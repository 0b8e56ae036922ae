"""Builds the site: `python -m website --out site`."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from website.navigation import llms_txt, write_settings
from website.pages import ROOT, Page, all_pages, assets
from website.replay import scripts


def main() -> None:
    """Assemble the pages, let MkDocs render them, and put their Markdown beside them."""
    parser = argparse.ArgumentParser(prog="python -m website", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="The folder of the site (default: site).")
    out = parser.parse_args().out.resolve()
    began = time.monotonic()
    pages = all_pages()
    with tempfile.TemporaryDirectory(prefix="openenv-site-") as folder:
        render(pages, Path(folder), out)
    for path, page in pages.items():
        _write(out / path, page.text)
    _write(out / "llms.txt", llms_txt(pages))
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB in {out}, {time.monotonic() - began:.0f} s")


def render(pages: Mapping[str, Page], folder: Path, out: Path) -> None:
    """Let MkDocs render the pages, which are assembled in the folder. Exits with what it has to warn of."""
    for path, page in pages.items():
        _write(folder / "docs" / path, f"---\nsearch: {{boost: {_boost(path)}}}\n---\n{page.text}")
    for path, file in assets():
        (folder / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / "docs" / path)
    for path, text in scripts():
        _write(folder / "docs" / path, text)
    settings = write_settings(folder, pages, out)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(settings)]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("the site is not complete: MkDocs names what is wrong above")


_BOOSTS = {
    "decisions/": 0.1, "changelog": 0.1, "reference/api/": 0.3, "architecture": 0.3, "vector": 0.3, "rubrics": 0.5,
    "reference/run": 0.6, "environments/": 0.7, "certify": 0.7, "write": 2.0, "serving": 1.5, "train.md": 1.5,
    "catalogs": 1.5, "when-it-fails": 2.0,
}  # fmt: skip
"""What a search makes of a page whose path begins so, beside 1 of others: instructions are what most look for."""


def _boost(path: str) -> float:
    return next((weight for beginning, weight in _BOOSTS.items() if path.startswith(beginning)), 1.0)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
