"""The documentation's site, built once for all processes of the tests, and a server of its files."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from filelock import FileLock
from starlette.staticfiles import StaticFiles

from tests.browser import browser, page
from tests.conftest import running

__all__ = ["browser", "page"]

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-docs/bin/python"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Path:
    """The folder of the site."""
    if not PYTHON.is_file():
        pytest.skip("needs .venv-docs: make docs")
    folder = tmp_path_factory.getbasetemp().parent / f"site-{testrun_uid}"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            built = subprocess.run(
                [PYTHON, "-m", "website", "--out", folder],
                cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert built.returncode == 0, built.stderr
            print(built.stdout)
    return folder


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the site is served, without a slash at the end."""
    app = FastAPI(openapi_url=None)
    app.mount("/", StaticFiles(directory=site, html=True))
    with running(app) as url:
        yield url
