"""The folders in which the commands of a page are called: what its reader has by then."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from openenv.catalog.index import publish
from openenv.core.env_server import ServerConfig, create_app
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv, OpenSpielObservation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.acceptance.printed_commands import ROOT
from tests.catalog.published import card_of, made_environment
from tests.cli.authoring.test_import import CLIFF
from tests.conftest import running
from tests.pages.run_files import make_run

_SUMS = """
import verifiers
from datasets import Dataset


def is_right(completion, answer):
    return float(completion[-1]["content"] == answer)


def load_environment(num_examples=5):
    rows = [{"question": f"{n} + {n}", "answer": str(2 * n)} for n in range(num_examples)]
    return verifiers.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=verifiers.Rubric(funcs=[is_right]))
"""
FILES: dict[str, dict[str, tuple[str, int]]] = {
    "docs/first-environment.md": {
        "change_env/models.py": ("## `change_env/models.py`", 0),
        "change_env/server/environment.py": ("## `change_env/server/environment.py`", 0),
        "change_env/tests/test_environment.py": ("## `change_env/tests/test_environment.py`", 0),
    },
    "docs/migration.md": {"counter.py": ("`counter.py`:", 0)},
    "docs/scale.md": {"run.yaml": ("## Several nodes", 0)},
    "docs/write.md": {
        "guess_env/models.py": ("## Messages: `models.py`", 0),
        "guess_env/server/environment.py": ("## Rules: `server/environment.py`", 0),
        "guess_env/client.py": ("## Client and server: `client.py`, `server/app.py`", 0),
        "guess_env/server/app.py": ("## Client and server: `client.py`, `server/app.py`", 1),
        "guess_env/openenv.yaml": ("`openenv.yaml` needs two lines:", 0),
        "point_mass.py": ("`point_mass.py`:", 0),
        "library.py": ("`library.py`:", 0),
    },
}
"""The files that a reader writes, each from a block of the page: the text before it, and its number from there."""


def make_folder(page: str, folder: Path) -> None:
    """The repository's files that pages name, and the page's own. Folders `runs` and the like are the page's."""
    for name in ("benchmarks", "constraints.txt", "examples", "models"):
        (folder / name).symlink_to(ROOT / name)
    if page in _MAKERS:
        _MAKERS[page](folder)


def _package(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "openenv", "init", "my_env"], cwd=folder, check=True, capture_output=True)


def _guess_package(folder: Path) -> None:
    for package in ("guess_env", "guess_env/server"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()


def _game(folder: Path) -> None:
    shutil.copy(Path(__file__).with_name("games") / "number_words.py", folder / "game.py")


def _cliffs(folder: Path) -> None:
    (folder / "cliffs").mkdir()
    (folder / "cliffs/board.py").write_text("SIZE = 6\n")
    (folder / "cliffs/cliff.py").write_text(CLIFF)


def _verifiers_file(folder: Path) -> None:
    (folder / "my_env.py").write_text(_SUMS)


def _sources_of_all_kinds(folder: Path) -> None:
    _package(folder)
    _verifiers_file(folder)
    _cliffs(folder)


def _runs_and_a_recording(folder: Path) -> None:
    make_run(folder / "runs", "blackjack")
    app = create_app(
        OpenSpielEnvironment, OpenSpielAction, OpenSpielObservation, "openspiel_env",
        config=ServerConfig(record_dir=folder / "recordings"),
    )  # fmt: skip
    with running(app) as url, OpenSpielEnv(url) as env:
        result = env.reset(seed=3)
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        session = env.session_id
    (folder / f"recordings/{session}.jsonl").rename(folder / "recordings/1f3a.jsonl")


def _catalog(folder: Path) -> None:
    environment = made_environment(folder, "my_env")
    publish(card_of(environment, folder / "key.pem"), environment, folder / "environments")


_MAKERS: dict[str, Callable[[Path], None]] = {
    "docs/catalogs.md": _catalog,
    "docs/certify.md": _package,
    "docs/check.md": _package,
    "docs/dialects.md": _verifiers_file,
    "docs/existing.md": _cliffs,
    "docs/hub.md": _package,
    "docs/migration.md": _sources_of_all_kinds,
    "docs/pages.md": _runs_and_a_recording,
    "docs/serving.md": _package,
    "docs/start.md": lambda folder: make_run(folder / "runs", "guess"),
    "docs/use.md": _game,
    "docs/write.md": _guess_package,
}
