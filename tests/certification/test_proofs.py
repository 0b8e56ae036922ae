"""Proofs of `openenv certify`: each finds the fault that it is for, and none finds one where there is none."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from openenv.auto.environment import named_environment
from openenv.certification.answers import (
    RepliesWith,
    copied_prompt,
    good_play,
    hidden_answer,
    no_answer,
    repeated_answer,
)
from openenv.certification.difficulty import signal
from openenv.certification.search import search_rewards
from openenv.certification.subject import KnownPlay, Proof, Subject, known_play
from openenv.certification.suite import certify
from openenv.cli.main import app

HACKED = Path(__file__).parent / "hacked.py"
SEARCH_S = 2.0


def goes_there(seen: Any, rng: Random) -> dict[str, str]:
    return {"to": "right" if seen.goal > seen.field else "left"}


def sells_all(seen: Any, rng: Random) -> dict[str, int]:
    return {"amount": seen.money}


def answers(seen: Any, rng: Random) -> dict[str, str]:
    number = int(seen.question.rpartition("number ")[2][0])
    return {"text": ("cat", "dog", "owl", "fox")[number - 1]}


def answers_owl(seen: Any, rng: Random) -> dict[str, str]:
    return {"text": "owl"}


KNOWN: dict[str, KnownPlay] = {
    "Asks": KnownPlay(play=answers, best_return=1.0),
    "AlwaysTheSame": KnownPlay(play=answers_owl, best_return=1.0),
    "Walks": KnownPlay(play=goes_there, best_return=1.0),
    "EndsAtOnce": KnownPlay(play=goes_there),
    "PaysAgain": KnownPlay(play=goes_there, best_return=1.0),
    "NeverArrives": KnownPlay(play=goes_there, best_return=1.0),
    "SellsLessThanNothing": KnownPlay(play=sells_all, best_return=1.0),
}
"""Good play, where its author knows it."""


class Certified:
    """An environment that is served, with the scores that proofs compare with."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        (self.random,) = subject.scores([subject.random_policy()], 200)

    def proof(self, name: str) -> Proof:
        """One proof, as the suite makes it."""
        subject, random = self.subject, self.random
        proof, good = good_play(subject, random)
        repeated, best = repeated_answer(subject, random, good)
        proofs: dict[str, Callable[[], Proof]] = {
            "good play": lambda: proof,
            "no answer": lambda: no_answer(subject, [random, best]),
            "copied prompt": lambda: copied_prompt(subject, [random, best]),
            "repeated answer": lambda: repeated,
            "hidden answer": lambda: hidden_answer(subject, random, good),
            "search for reward": lambda: search_rewards(subject, random, good, SEARCH_S),
            "signal": lambda: signal(subject),
        }
        return proofs[name]()


@pytest.fixture(scope="module")
def certified() -> Iterator[Callable[[str], Certified]]:
    """Each environment of `hacked`, served once."""
    with ExitStack() as stack:

        @cache
        def served(environment: str) -> Certified:
            named = named_environment(f"{HACKED}:{environment}")
            known = KNOWN.get(environment, KnownPlay())
            return Certified(Subject(named=named, served=stack.enter_context(named.served()), known=known, seed=0))

        yield served


@pytest.mark.parametrize(
    ("environment", "name", "status", "seen"),
    [
        ("TakesBeginnings", "no answer", "fail", "empty texts as the reply: 100% won"),
        ("TakesAnythingAbout", "copied prompt", "fail", "as the reply: 100% won"),
        ("AlwaysTheSame", "repeated answer", "fail", "{'text': 'owl'} every time: 100% won"),
        ("ShowsTheAnswer", "hidden answer", "fail", "observation.metadata.checks[0].expected"),
        ("NeverArrives", "good play", "fail", "does not reach the best return"),
        ("PaysAgain", "search for reward", "fail", "the most of good play is +1"),
        ("SellsLessThanNothing", "search for reward", "fail", "the most of good play is +1"),
        ("PaysNothing", "signal", "warn", "0% of 32 starts"),
    ],
)
def test_a_fault_that_pays_is_found(
    certified: Callable[[str], Certified], environment: str, name: str, status: str, seen: str
) -> None:
    result = certified(environment).proof(name).result

    assert (result.status, result.remedy != "") == (status, True), result.seen
    assert seen in result.seen


def test_the_actions_of_an_episode_that_pays_too_much_are_shown(certified: Callable[[str], Certified]) -> None:
    seen = certified("SellsLessThanNothing").proof("search for reward").result.seen

    assert "steps; the most of good play is +1: {'amount': -1000000}" in seen, seen


def test_a_loop_that_pays_is_found_without_a_good_player(certified: Callable[[str], Certified]) -> None:
    known = certified("PaysAgain")

    result = search_rewards(replace(known.subject, known=KnownPlay()), known.random, None, SEARCH_S).result

    assert result.status == "warn"
    assert "comes back again and again" in result.seen


ALL = ["good play", "no answer", "copied prompt", "repeated answer", "hidden answer", "search for reward", "signal"]


@pytest.mark.parametrize("environment", ["Asks", "Walks", "EndsAtOnce"])
@pytest.mark.parametrize("name", ALL)
def test_none_is_found_where_there_is_none(certified: Callable[[str], Certified], environment: str, name: str) -> None:
    result = certified(environment).proof(name).result

    assert result.status == "pass", result.seen


def test_a_good_player_that_fails_leaves_the_other_actions(certified: Callable[[str], Certified]) -> None:
    def fails(seen: Any, rng: Random) -> None:
        raise IndexError("no cards")

    known = certified("Walks")
    subject = replace(known.subject, known=KnownPlay(play=fails))

    proof, _ = repeated_answer(subject, known.random, None)

    assert (proof.result.status, proof.figures["actions"]) == ("pass", 2)


def test_what_was_proved_is_kept_where_the_next_proof_cannot_be_made() -> None:
    seen: list[str] = []

    card = certify(f"{HACKED}:NeverBegins", minutes=0.5, trains=False, on_proof=lambda proof: seen.append(proof.name))

    assert not card.ok
    assert card.proofs[0]["status"] != "fail"
    assert card.proofs[-1]["status"] == "fail"
    assert seen == [one["name"] for one in card.proofs]


def test_figures_are_those_of_the_sentences(certified: Callable[[str], Certified]) -> None:
    figures = certified("Walks").proof("good play").figures

    assert figures["best return"] == 1.0
    assert figures["good play"] == {
        "episodes": 100, "mean_return": 1.0, "low": 1.0, "high": 1.0, "win_rate": 1.0,
    }  # fmt: skip
    assert 0 < figures["random play"]["mean_return"] < 1


def test_a_policy_without_an_answer_is_above_none(certified: Callable[[str], Certified]) -> None:
    known = certified("Asks")

    (nothing,) = known.subject.scores([RepliesWith("nothing", known.subject.served.text, lambda _: None)], 20)

    assert not nothing.is_above(known.random)
    assert not nothing.reaches(-1.0, known.random)
    assert nothing.figures["mean_return"] is None


def test_a_slow_environment_plays_fewer_episodes(certified: Callable[[str], Certified]) -> None:
    slow = replace(certified("Walks").subject, episode_s=0.1, proof_s=2.0)

    (one,), two = slow.scores([slow.random_policy()], 100), slow.scores([slow.random_policy()] * 2, 100)

    assert one.summary.num_episodes == 20
    assert [each.summary.num_episodes for each in two] == [10, 10]
    assert (slow.most_policies(24), certified("Walks").subject.most_policies(24)) == (2, 24)
    assert slow.timed(1.0).episode_s > 0


def test_the_manifest_of_a_folder_declares_good_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "my_env"]).exit_code == 0
    (tmp_path / "my_env/solver.py").write_text("def play(seen, rng):\n    return {'number': 5}\n")
    measured = "measured:\n  easy: {heuristic: solver.py:play, best_return: 1.0, reset: {size: 3}}\n  hard: {}\n"
    (tmp_path / "my_env/openenv.yaml").open("a").write(measured)

    known = known_play(named_environment("./my_env"), {})

    assert (known.best_return, dict(known.reset)) == (1.0, {"size": 3})
    assert known.play is not None
    assert known.play(None, Random(0)) == {"number": 5}
    assert known_play(named_environment("./my_env"), {"size": 4}) == KnownPlay(reset={"size": 4})
    with (tmp_path / "my_env/openenv.yaml").open("a") as manifest:
        manifest.write("  worst: {hueristic: solver.py:play}\n")
    with pytest.raises(ValueError, match=r"openenv\.yaml: measured: .*hueristic"):
        known_play(named_environment("./my_env"), {})
    (tmp_path / "my_env/openenv.yaml").write_text(f"name: my_env\n{measured}")
    (tmp_path / "my_env/solver.py").unlink()
    with pytest.raises(LookupError, match=r"there is no file .*solver\.py"):
        known_play(named_environment("./my_env"), {})


def test_a_bundled_environment_is_certified_with_its_first_measured_task_or_the_one_that_is_named() -> None:
    openspiel = named_environment("openspiel")

    assert known_play(openspiel, {"game_name": "blackjack"}).best_return is not None
    assert known_play(named_environment("snake"), {}).reset == {"size": 6}
