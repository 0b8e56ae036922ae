"""`openenv envs` lists the bundled environments."""

import json
import subprocess

from tests.cli.commands import OPENENV, run


def test_envs_lists_environments_and_whether_they_are_installed():
    found = {row["name"]: row for row in json.loads(run("envs", "--json").stdout)}

    assert found["echo"]["installed"]
    assert found["openspiel"]["extra"] == "openspiel"


def test_the_package_runs_as_a_module_too():
    listed = subprocess.run([*OPENENV, "envs", "--json"], capture_output=True, text=True, check=True)

    assert listed.stdout == run("envs", "--json").stdout
