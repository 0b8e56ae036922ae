"""The published program and ours end with the same exit codes. Run by `make interop`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.interop.record_commands import recorded
from tests.interop.test_published import PYTHON

pytestmark = pytest.mark.interop

ORS_CLASS = "from ors import Environment\n\n\nclass {}(Environment):\n    pass\n"
PUBLISHED = """
import contextlib, io, json, os, sys
from openenv.cli.__main__ import main
codes = []
for args, folder in json.loads(sys.argv[1]):
    os.chdir(folder)
    sys.argv = ["openenv", *args]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as ended:
            codes.append(ended.code or 0)
        else:
            codes.append(0)
print(json.dumps(codes))
"""
"""Runs the commands in one process, each in its folder."""
COMMANDS = (
    "nonsense", "init", "init my_env", "init My-Env", "init full_env", "init my_env -o new/place",
    "init my_env --bad", "build nowhere", "build nothing", "build file", "push nowhere", "push nothing",
    "validate nowhere", "validate nothing", "validate nothing --level deep", "validate nothing --timeout 0",
    "validate nothing --url http://127.0.0.1:9", "validate --url http://127.0.0.1:9", "validate --local --url http://x",
    "validate http://127.0.0.1:9 --url http://127.0.0.1:8", "fork", "fork name", "fork a/b/c", "serve nowhere",
    "serve nothing", "import", "import one", "import one -n one_env", "import one -n One-Env -o out",
    "import nowhere -n one_env -o out", "import file -n one_env -o out", "import nothing -n one_env -o out",
    "import two -n one_env -o out", "import two -n one_env -o out --env-class Third",
    "import two -n one_env -o out --env-class First", "import two -n one_env -o out --env-class env:Second",
    "import one -n one_env -o out", "import one -n full_env -o .", "import one -n one_env -o one",
    "import one -n one_env -o out --type unknown", "import one -n one_env -o out --type ors",
)  # fmt: skip


def make_folder(folder: Path) -> Path:
    """Sources to import, and a file and a folder that are no environments."""
    for name in ("nothing", "one", "two", "full_env"):
        (folder / name).mkdir(parents=True)
    (folder / "file").write_text("")
    (folder / "one/env.py").write_text(ORS_CLASS.format("One"))
    (folder / "two/env.py").write_text(ORS_CLASS.format("First") + "\n\n" + ORS_CLASS.format("Second"))
    (folder / "full_env/mine.txt").write_text("mine")
    return folder


@pytest.fixture(scope="module")
def published_codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The exit code of each command of the published program, in a new folder."""
    places = [make_folder(tmp_path_factory.mktemp("published")) for _ in COMMANDS]
    cases = [(command.split(), str(place)) for command, place in zip(COMMANDS, places, strict=True)]
    offline = {"PYTHONPATH": "", "HF_ENDPOINT": "http://127.0.0.1:9", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [Path(PYTHON).absolute(), "-c", PUBLISHED, json.dumps(cases)], cwd=places[0], env={**os.environ, **offline},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(zip(COMMANDS, json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_the_record_is_that_of_the_published_program() -> None:
    script = "import json; from openenv.cli.__main__ import app; from tests.interop.record_commands import parameters; "
    done = subprocess.run(
        [PYTHON, "-c", f"{script}print(json.dumps(parameters(app)))"], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip

    assert json.loads(done.stdout) == recorded()


@pytest.mark.parametrize("command", COMMANDS)
def test_equal_arguments_end_with_equal_exit_codes(
    command: str, published_codes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = run(*command.split(), cwd=make_folder(tmp_path / "ours"))

    assert done.returncode == published_codes[command], done.stderr
    assert "Traceback" not in done.stderr
