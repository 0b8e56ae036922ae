"""`openenv_core`, the older name, is the same tree as `openenv.core`: no class exists twice."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import openenv.core
from openenv.core.env_server.types import Action

MODULES = sorted(
    module.name.removeprefix("openenv.core")
    for module in pkgutil.walk_packages(openenv.core.__path__, "openenv.core.")
    if not module.name.endswith("__main__")
)


def python(code: str) -> str:
    """Return what a new interpreter prints, because this one may have imported either name."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.filterwarnings("ignore:openenv_core")
@pytest.mark.parametrize("name", ["", *MODULES])
def test_each_module_is_the_same_object_under_both_names(name):
    new = importlib.import_module(f"openenv.core{name}")
    old = importlib.import_module(f"openenv_core{name}")

    assert old is new
    assert new.__spec__.name == f"openenv.core{name}"
    assert new.__name__ == f"openenv.core{name}"


def test_imports_of_older_environments_work_in_either_order():
    code = (
        "from openenv_core.env_server.types import Action as Old\n"
        "from openenv_core import EnvClient\n"
        "from openenv_core.http_env_client import HTTPEnvClient\n"
        "import openenv_core.containers.runtime.docker\n"
        "from openenv.core.env_server.types import Action as New\n"
        "import openenv.core.env_client, openenv.core.http_env_client as http\n"
        "print(Old is New, EnvClient is openenv.core.env_client.EnvClient, HTTPEnvClient is http.HTTPEnvClient)\n"
    )
    assert python(code) == "True True True"


@pytest.mark.filterwarnings("ignore:openenv_core")
def test_an_action_of_one_name_is_an_instance_of_the_other():
    from openenv_core.env_server.types import Action as OldAction

    class OlderAction(OldAction):
        move: int

    assert isinstance(OlderAction(move=1), Action)


@pytest.mark.filterwarnings("ignore:openenv_core")
def test_a_module_that_does_not_exist_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"openenv_core\.nothing"):
        importlib.import_module("openenv_core.nothing")


def test_the_older_name_warns_with_the_newer_one():
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    import openenv_core\n"
        "print(seen[0].category.__name__, seen[0].message)"
    )
    message = "openenv_core is the older name of openenv.core: import openenv.core instead"
    assert python(code) == f"DeprecationWarning {message}"
