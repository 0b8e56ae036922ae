"""The commands take the arguments of the published program, as `tests/interop/record_commands.py` has recorded them."""

import pytest

from openenv.cli.main import app
from tests.integrations_table import Record
from tests.interop.record_commands import COMMANDS, parameters, recorded

OURS = parameters(app)


@pytest.mark.integration("command line", "arguments of init, build, push, validate, fork, serve, import as in 0.10.0")
def test_there_is_a_record_of_each_command(record_property: Record) -> None:
    options = [option for name in COMMANDS for param in recorded()[name] for option in param["options"]]

    assert set(recorded()) == set(COMMANDS)
    assert len(options) > 40
    record_property("figure", f"{len(options)} options of {len(COMMANDS)} commands")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_each_option_of_the_published_one(command: str) -> None:
    ours = [param for param in OURS[command] if param["kind"] == "option"]
    for published in recorded()[command]:
        if published["kind"] != "option":
            continue
        same = [param for param in ours if set(published["options"]) <= set(param["options"])]

        assert len(same) == 1, published["options"]
        for key in ("is_flag", "is_repeated", "is_required"):
            assert same[0][key] == published[key], (published["options"], key)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_the_published_positions(command: str) -> None:
    published, ours = (
        [param["is_required"] for param in all_[command] if param["kind"] == "argument"] for all_ in (recorded(), OURS)
    )

    assert ours == published


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_of_ours_is_required_that_the_published_command_does_not_need(command: str) -> None:
    needed = {option for param in recorded()[command] if param["is_required"] for option in param["options"]}
    ours = {option for param in OURS[command] if param["is_required"] for option in param["options"]}

    assert ours <= needed
