"""Mutants of rules: which there are, and that recorded play or an environment's tests notice them."""

import ast
from pathlib import Path

import pytest

from openenv.auto.environment import named_environment
from openenv.certification.mutants import mutants_of
from openenv.certification.rules import recorded, rules
from openenv.certification.subject import KnownPlay, Subject

HACKED = Path(__file__).parent / "hacked.py"
RULES = '''
class Rules:
    """No number of a docstring counts: 3."""

    def step(self, action):
        if action.number > self.number and not self.ended:
            raise ValueError(f"{action.number + 1} is above")
        self.left -= 1
        return 2 if self.left == 0 else True

    def __repr__(self):
        return 1
'''


def test_each_condition_operator_and_number_has_a_mutant(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    path.write_text(RULES)

    found = mutants_of(path)

    assert [(one.line, one.change) for one in found] == [
        (6, "`if action.number > self.number and (not self.ended)` the other way round"),
        (6, "`action.number > self.number and (not self.ended)` with Or"),
        (6, "`action.number > self.number` with GtE"),
        (8, "`self.left -= 1` with Add"),
        (8, "1 as 2"),
        (9, "`self.left == 0` with NotEq"),
        (9, "0 as 1"),
        (9, "2 as 3"),
        (9, "True as False"),
    ]
    original = ast.dump(ast.parse(RULES))
    sources = {ast.dump(ast.parse(one.source)) for one in found}
    assert len(sources) == len(found)
    assert original not in sources
    assert path.read_text() == RULES


def subject_of(name: str) -> Subject:
    named = named_environment(name)
    return Subject(named=named, served=None, known=KnownPlay(), seed=0)  # type: ignore[arg-type]


@pytest.mark.process
def test_recorded_play_is_the_same_in_each_server_and_another_with_another_seed() -> None:
    one = subject_of(f"{HACKED}:Walks")
    other = Subject(named=one.named, served=one.served, known=one.known, seed=1)

    assert recorded(one.named, one) == recorded(one.named, one)
    assert recorded(one.named, one) != recorded(one.named, other)


FEW_RULES = """
from openenv import Action, Environment, Observation, State


class Push(Action):
    by: int


class Place(Observation):
    field: int


class Pushes(Environment[Push, Place, State]):
    execution = "inline"

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.field = seed
        return Place(field=self.field)

    def step(self, action, timeout_s=None, **kwargs):
        self.field += action.by
        return Place(field=self.field, reward=bonus(self.field), done=True)

    @property
    def state(self):
        return State()


def bonus(field):
    return field if field < 5000 else 7
"""


@pytest.mark.process
def test_a_rule_that_no_play_reaches_is_named(tmp_path: Path) -> None:
    (tmp_path / "pushes.py").write_text(FEW_RULES)

    subject = subject_of(f"{tmp_path / 'pushes.py'}:Pushes")
    proof, play = rules(subject, 120.0, lambda _: None)

    assert proof.figures["mutants"] == 5
    assert proof.figures["unnoticed"] == [
        "pushes.py:30 `field < 5000` with LtE", "pushes.py:30 5000 as 5001", "pushes.py:30 7 as 8",
    ]  # fmt: skip
    assert proof.result.status == "warn"
    assert play == recorded(subject.named, subject)


@pytest.mark.process
def test_the_tests_of_a_folder_notice_what_play_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "pushes"
    (folder / "server").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "openenv.yaml").write_text("name: pushes\n")
    (folder / "server/environment.py").write_text(FEW_RULES)
    application = "from openenv import create_app\nfrom pushes.server.environment import Place, Push, Pushes\n\n"
    (folder / "server/app.py").write_text(f"{application}app = create_app(Pushes, Push, Place)\n")
    test = "from pushes.server.environment import bonus\n\n\ndef test_bonus():\n    assert bonus(5000) == 7\n"
    (folder / "tests/test_bonus.py").write_text(test)

    proof, _ = rules(subject_of(str(folder)), 120.0, lambda _: None)

    assert proof.figures["unnoticed"] == []
    assert proof.result.status == "pass"


def test_an_environment_elsewhere_has_no_mutants() -> None:
    proof, play = rules(subject_of("http://127.0.0.1:9"), 1.0, lambda _: None)

    assert (proof.result.status, play) == ("skip", None)
