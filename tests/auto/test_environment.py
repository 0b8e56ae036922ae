"""One way to name an environment: whatever the name, it is served, typed and has a text interface."""

import json
import re
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openenv import AutoEnv
from openenv.auto.environment import load_text_class, named_environment
from openenv.auto.schema_client import describe_server
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.errors import ServerUnreachable
from openenv.envs import openspiel_env
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.envs.openspiel_env.server.app import app as openspiel_app
from openenv.envs.openspiel_env.text import OpenSpielText
from openenv.text.derived import DerivedText
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


def test_the_folder_of_a_bundled_environment_names_its_text_interface_by_module():
    named = named_environment(str(Path(openspiel_env.__file__).parent))
    assert load_text_class(named.text) is OpenSpielText


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
        from openenv.text.derived import DerivedText
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
@pytest.mark.finding("an environment of any name is played to its end, and the fields of an action are an action")
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


@pytest.mark.parametrize(
    ("chunk", "pause_s", "reason"),
    [(b" " * 65536, 0.0, "above max_message_size_mb"), (b" ", 0.02, "the response is not complete")],
)
@pytest.mark.finding("deadlines hold while bytes arrive, and responses have a size")
def test_a_schema_without_an_end_is_an_error_with_limits_of_size_and_time(pouring, monkeypatch, chunk, pause_s, reason):
    monkeypatch.setattr("openenv.auto.schema_client._ANSWER_TIMEOUT_S", 20.0 if not pause_s else 0.5)
    url = pouring(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", chunk, pause_s=pause_s)
    started = time.monotonic()
    with pytest.raises(ServerUnreachable, match=reason):
        describe_server(url)
    assert time.monotonic() - started < 15


def test_a_head_without_an_end_is_an_error_after_the_time_limit(pouring, monkeypatch):
    monkeypatch.setattr("openenv.auto.schema_client._ANSWER_TIMEOUT_S", 0.5)
    with pytest.raises(ServerUnreachable, match="the response is not complete"):
        describe_server(pouring(b"HTTP/1.1 200 OK\r\nx-long: ", b"x", pause_s=0.02))


def _nested(depth: int) -> str:
    return '{"type":"object","properties":{"inner":' * depth + "{}" + "}}" * depth


def test_the_reason_of_a_server_that_answers_with_an_error_is_named(serving):
    async def answer(request: Request) -> Response:
        return Response('{"detail":"Shop could not be made: no server"}', 500, media_type="application/json")

    url = serving(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]))
    with pytest.raises(ServerUnreachable, match=r"/schema answers 500: .*Shop could not be made"):
        describe_server(url)


_DOUBLING = {
    f"level{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/level{n + 1}"} for k in "ab"}}
    for n in range(40)
}


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (_nested(5000), "/schema"),
        (_nested(40), "nested more than 64 deep"),
        ({"$ref": "#", "properties": {"a": {}}}, "'#' of the schema leads to itself"),
        ({"allOf": [{"$ref": "#"}], "properties": {"a": {}}}, "'#' of the schema leads to itself"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}, "leads to itself"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "describes no messages"),
        (
            {"properties": {"a": {"$ref": "#/$defs/level0"}}, "$defs": {**_DOUBLING, "level40": {}}},
            "more than 3000 types",
        ),
        ({"properties": [1]}, "/schema"),
        ({"properties": {"_hidden": {"type": "string"}}}, "describes no messages"),
    ],
)
@pytest.mark.finding("deadlines hold while bytes arrive, and responses have a size")
def test_an_odd_schema_is_an_error_that_names_what_is_wrong(module_serving, action, reason):
    written = action if isinstance(action, str) else json.dumps(action)
    text = f'{{"action":{written},"observation":{{}},"state":{{}}}}'

    async def answer(request: Request) -> Response:
        return Response(text if request.url.path == "/schema" else "{}", media_type="application/json")

    url = module_serving(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]))
    with pytest.raises(ServerUnreachable, match=re.escape(reason)):
        describe_server(url).client_class()
