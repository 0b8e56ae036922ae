"""`openenv show` prints for each environment what is recorded in `shown`: no prompt changes unseen."""

import pytest

from openenv.envs.catalog import entries
from tests.envs.extras import require_entry
from tests.envs.record_shown import FOLDER, commands, recorded, shown

pytestmark = pytest.mark.process
REMEDY = "the prompt of {name} is another one. If it is meant, run `python -m tests.envs.record_shown {name}`."


@pytest.mark.parametrize("name", commands())
def test_show_prints_what_is_recorded(name):
    entry, arguments = commands()[name]
    require_entry(entry)

    assert shown(arguments) == recorded(name).read_text(encoding="utf-8"), REMEDY.format(name=name)


def test_every_environment_is_recorded():
    assert {path.stem for path in FOLDER.iterdir()} == set(commands())
    assert {entry.name for entry in entries()} <= set(commands())
