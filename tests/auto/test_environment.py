"""One way to name an environment: whatever the name, it is served, typed and has a text interface."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import ValidationError

from openenv import AutoEnv
from openenv.auto.environment import named_environment
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.errors import ServerUnreachable
from openenv.core.text.derived import DerivedText
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.envs.openspiel_env.server.app import app as openspiel_app
from openenv.envs.openspiel_env.text import OpenSpielText
from tests.auto import guess_env
from tests.core.tool_env import NotebookEnvironment

FILE = Path(guess_env.__file__)
NAMES = {
    "FILE.py:CLASS": f"{FILE}:GuessEnvironment",
    "MODULE:CLASS": "tests.auto.guess_env:GuessEnvironment",
}


def plays_a_guess(served):
    """Play the episode of seed 3 with the right number."""
    with served.client() as client:
        first = client.reset(seed=3).observation
        word = served.text.describe(first)
        return client.step(served.text.parse(str(guess_env.WORDS.index(word)), first)).reward


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_class_is_served_and_typed_by_its_schemas(name):
    with named_environment(name).served() as served:
        assert plays_a_guess(served) == 1.0
        with served.client() as client, pytest.raises(ValidationError, match="number"):
            client._message_classes[0](number=10)


def test_a_url_alone_is_enough(module_serving):
    url = module_serving(create_app(guess_env.GuessEnvironment))
    with named_environment(url).served() as served:
        assert served.client_class is not None
        assert isinstance(served.text, DerivedText)
        assert plays_a_guess(served) == 1.0


@pytest.mark.process
def test_a_folder_names_its_own_text_interface(tmp_path):
    (tmp_path / "openenv.yaml").write_text("name: guess\napp: app:app\ntext: words.py:Shouted\n")
    (tmp_path / "app.py").write_text(
        dedent(f"""
        import sys
        sys.path.insert(0, {str(FILE.parents[2])!r})
        from openenv.core.env_server import ServerConfig, create_app
        from tests.auto.guess_env import GuessAction, GuessEnvironment, GuessObservation
        app = create_app(GuessEnvironment, GuessAction, GuessObservation)
        """)
    )
    (tmp_path / "words.py").write_text(
        dedent("""
        from openenv.core.text.derived import DerivedText
        class Shouted(DerivedText):
            def describe(self, observation):
                return super().describe(observation).upper()
        """)
    )
    with named_environment(str(tmp_path)).served() as served, served.client() as client:
        first = client.reset(seed=3).observation
        assert served.text.describe(first) == first.word.upper()
        assert served.text.parse("4", first).number == 4


def test_a_server_of_a_bundled_environment_has_that_ones_classes(module_serving):
    with named_environment(module_serving(openspiel_app)).served() as served:
        assert served.client_class is OpenSpielEnv
        assert isinstance(served.text, OpenSpielText)


def test_tools_become_the_actions_of_an_environment(module_serving):
    url = module_serving(create_app(NotebookEnvironment, CallToolAction, CallToolObservation))
    with named_environment(url).served() as served, served.client() as client:
        first = client.reset().observation
        action = served.text.parse('{"name": "write", "arguments": {"text": "hello"}}', first)
        assert action == CallToolAction(tool_name="write", arguments={"text": "hello"})
        assert served.text.describe(client.step(action).observation) == "1"


def test_the_token_of_the_environment_variable_is_sent(module_serving, monkeypatch):
    url = module_serving(create_app(guess_env.GuessEnvironment, config=ServerConfig(token="t")))
    with pytest.raises(ServerUnreachable, match="401"), named_environment(url).served():
        pass
    monkeypatch.setenv("OPENENV_TOKEN", "t")
    with named_environment(url).served() as served:
        assert plays_a_guess(served) == 1.0


@pytest.mark.process
def test_auto_env_takes_the_same_names():
    with AutoEnv.from_env(NAMES["FILE.py:CLASS"]) as env:
        first = env.reset(seed=3)
        assert first.observation.word in guess_env.WORDS
        assert env.state().step_count == 0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gues", None, "is not among .*, guess, .*Did you mean 'guess'"),
        ("echo", "nowhere.py:Words", "there is no file"),
        ("echo", "tests.auto.guess_env:Words", "has no Words"),
        ("echo", "tests.auto.guess_env", "write MODULE:CLASS or FILE.py:CLASS"),
        ("echo", "tests.auto.guess_env:GuessAction", "is no subclass of"),
    ],
)
def test_a_wrong_name_is_an_error_with_the_remedy(name, text, message):
    with pytest.raises((LookupError, TypeError), match=message):
        named_environment(name, text=text).served_at("http://127.0.0.1:9")


def test_a_url_without_a_server_is_an_error_that_names_it():
    with (
        pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:9 does not answer"),
        named_environment("http://127.0.0.1:9").served(),
    ):
        pass


def test_naming_imports_and_starts_nothing():
    name = "not_imported_module:NoClass"
    assert named_environment(name).name == name
    assert "not_imported_module" not in sys.modules
