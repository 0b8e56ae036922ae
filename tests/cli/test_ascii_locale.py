"""The commands on a machine whose encoding is not UTF-8."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import OPENENV

pytestmark = pytest.mark.process

ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "COLUMNS": "200"}
GAME = '''from pydantic import Field
from openenv import Action, Environment, Observation, State


class Word(Action):
    word: str = Field(description="a word, such as Größe 猫", examples=["Größe"])


class Shown(Observation):
    text: str = ""


class Game(Environment[Word, Shown, State]):
    """A game of Größen 猫."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=episode_id)
        return Shown(text="Größe? 🎲")

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        print("Größe 🎲")
        return Shown(text="schön: " + action.word, reward=1.0, done=True)

    @property
    def state(self):
        return self._state
'''


def in_ascii(*args: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    """A command's end and output, in a process whose encoding is ASCII."""
    done = subprocess.run([*OPENENV, *args], capture_output=True, cwd=cwd, env={**os.environ, **ASCII}, check=False)
    assert done.returncode == 0, done.stderr.decode("ascii")
    return done


@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
def test_what_the_terminal_cannot_show_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(GAME, encoding="utf-8")

    shown = in_ascii("show", "game.py:Game", "--reply", "Größe", cwd=tmp_path).stdout.decode("ascii")

    assert "sch?n: Gr??e" in shown


@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
def test_an_environments_files_are_utf_8(tmp_path: Path) -> None:
    in_ascii("init", "cafe_env", cwd=tmp_path)
    manifest = tmp_path / "cafe_env" / "openenv.yaml"
    manifest.write_text(manifest.read_text(encoding="utf-8") + "# Café 🎲\n", encoding="utf-8")

    options = ["--policy", "random", "--episodes", "2", "--save", "saved"]
    in_ascii("eval", "./cafe_env", *options, cwd=tmp_path)

    assert len(list((tmp_path / "saved").iterdir())) == 1
