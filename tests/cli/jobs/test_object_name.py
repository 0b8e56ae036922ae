"""The objects of a job are named after its run, as Kubernetes accepts a name."""

import re

import pytest

from openenv.cli.jobs.job_run import object_name
from openenv.rl.config_file import config_from_mapping

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A label of RFC 1035, as Kubernetes requires one of a service."""


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("My run", "my-run"),
        ("7b_on_tic_tac_toe", "run-7b-on-tic-tac-toe"),
        ("-7-", "run-7"),
        ("___", "run"),
        ("Übung", "bung"),
        ("a" * 62 + " b", "a" * 62),
        ("7" * 70, "run-" + "7" * 59),
    ],
)
def test_a_name_is_a_label_that_begins_with_a_letter(run: str, name: str) -> None:
    found = object_name(config_from_mapping({"name": run}))

    assert found == name
    assert LABEL.fullmatch(found)
