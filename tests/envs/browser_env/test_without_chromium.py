"""The web tasks where Chromium is missing, or does not start."""

import os
import subprocess
import sys

import pytest

from tests.envs.extras import require_extra

require_extra("miniwob", "browser")

from openenv.envs.browser_env.server.chromium import Chromium


def test_without_chromium_the_error_names_debians_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match=r"chromium is not installed .* apt-get install chromium"):
        Chromium()


def test_a_chromium_that_does_not_start_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "chromium").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RuntimeError, match="chromium did not start: run"):
        Chromium()


def test_the_environment_is_listed_without_chromium_and_without_selenium():
    program = (
        "import sys; from openenv.envs.catalog import load; entry = load('browser'); "
        "import openenv.envs.browser_env.server.app; "
        "print(len(entry.load_tasks()) >= 100, entry.missing_programs, 'selenium' in sys.modules)"
    )
    listed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, "PATH": ""}
    )

    assert listed.stdout.split("\n")[0] == "True ('chromium',) False"
