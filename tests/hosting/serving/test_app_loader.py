"""`MODULE:NAME` and its factories become an application, or an error that names the part and the remedy."""

import re  # noqa: F401  # a module that is no environment

import pytest
from pydantic import SecretStr

from openenv.core import Environment, Observation, State
from openenv.core.env_server import create_app
from openenv.hosting.serving.app_loader import load_app
from tests.core.counting_env import CountAction, CountingEnvironment

pytestmark = pytest.mark.finding("`openenv serve` serves classes, factories, applications and folders")


class Alone(CountingEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = False


class Sized(CountingEnvironment):
    def __init__(self, size: int) -> None:
        super().__init__()


class Closable(CountingEnvironment):
    """Notes the environments that were closed."""

    closed: list[CountingEnvironment] = []  # noqa: RUF012  shared on purpose

    def close(self) -> None:
        self.closed.append(self)


SHARED = Closable()


def alone():
    return Alone()


def shared():
    return SHARED


def fresh():
    return Closable()


def sized(size: int) -> CountingEnvironment:
    return Sized(size)


def broken():
    raise ZeroDivisionError("no quotient")


def missing():
    import a_library_that_is_not_there  # noqa: F401


def test_a_factory_without_an_annotation_has_the_session_limit_of_its_class():
    for workers_source in (alone, f"{__name__}:alone"):
        assert load_app(workers_source).state.sessions.share.max_sessions == 1


def test_the_environment_that_was_made_to_know_its_class_is_closed_unless_the_factory_keeps_it():
    load_app(f"{__name__}:shared")
    assert Closable.closed == []
    load_app(f"{__name__}:fresh")
    assert len(Closable.closed) == 1


@pytest.mark.parametrize("source", [Sized, sized, f"{__name__}:Sized", f"{__name__}:sized"])
def test_arguments_that_the_server_cannot_know_are_refused_at_the_start(source):
    with pytest.raises(ValueError, match=r"needs arguments \(size\), which the server cannot know: give"):
        load_app(source)


@pytest.mark.parametrize(("name", "raised"), [("broken", "ZeroDivisionError"), ("missing", "ModuleNotFoundError")])
def test_a_named_function_that_raises_is_named_with_its_error(name, raised):
    with pytest.raises(RuntimeError, match=f"{__name__}:{name} raised {raised} when the server called it: "):
        load_app(f"{__name__}:{name}")


def test_a_missing_library_of_a_module_and_a_missing_module_are_different_errors(tmp_path, monkeypatch):
    (tmp_path / "needy.py").write_text("import a_library_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="module needy imports a_library_that_is_not_there"):
        load_app("needy:app")
    with pytest.raises(ModuleNotFoundError, match="there is no module 'needless'"):
        load_app("needless:app")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def play(:", r"SyntaxError: invalid syntax \(awry_0\.py, line 1\)"),
        ("x = 1\nlevels = levles", r"NameError: name 'levles' is not defined \(.*awry_1\.py, line 2\)"),
        ("from .models import Move", r"ImportError: attempted relative import .* import by the whole name"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_place_of_its_fault(tmp_path, monkeypatch, text, message):
    name = f"awry_{['def', 'x =', 'fro'].index(text[:3])}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ImportError, match=f"module {name} cannot be imported: {message}"):
        load_app(f"{name}:app")


class Duck:
    """Has the methods of an environment, and those alone."""

    def __init__(self, size: int = 1): ...
    def reset(self, seed=None): ...
    def step(self, action): ...


class NeedyDuck(Duck):
    def __init__(self, size): ...


class Pond:
    """Has nothing of one."""


def hatched() -> Duck:
    return Duck()


duck = Duck()


@pytest.mark.parametrize("name", ["Duck", "NeedyDuck", "Pond", "hatched", "duck"])
@pytest.mark.finding("what is not there or not read is an error with the next step")
def test_a_class_of_its_own_is_refused_with_the_class_to_derive_from(name):
    with pytest.raises(ValueError, match=rf"{name} .*: derive it from Environment \(from openenv import Environment\)"):
        load_app(f"{__name__}:{name}")


def test_a_module_is_refused_with_the_name_to_write():
    with pytest.raises(ValueError, match="it is a module, so write the name of what is in it: re:NAME"):
        load_app(f"{__name__}:re")


class Unfinished(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs): ...


class Secret(Observation):
    word: SecretStr = SecretStr("")


class Unsent(Environment[CountAction, Secret, State]):
    def reset(self, seed=None, episode_id=None, **kwargs): ...
    def step(self, action, timeout_s=None, **kwargs): ...
    @property
    def state(self): ...


def unsent():
    return Unsent()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Unfinished", r"Unfinished does not write state, step: an Environment has reset, step and state"),
        ("Unsent", r"Secret\.word is declared as SecretStr"),
        ("unsent", r"Secret\.word is declared as SecretStr"),
    ],
)
def test_an_environment_that_no_session_could_use_is_refused_at_the_start(name, problem):
    with pytest.raises(ValueError, match=f"{name} cannot be served: .*{problem}"):
        load_app(f"{__name__}:{name}")


def test_an_application_is_served_as_it_is():
    app = create_app(CountingEnvironment)
    assert load_app(app) is app
