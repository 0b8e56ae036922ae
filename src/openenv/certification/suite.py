"""All proofs in their order, and the card that they make."""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from openenv.auto.environment import NamedEnvironment, named_environment, token_headers
from openenv.certification.answers import copied_prompt, good_play, hidden_answer, no_answer, repeated_answer
from openenv.certification.card import Card, source_digest, version_of
from openenv.certification.difficulty import signal
from openenv.certification.learning import learning
from openenv.certification.rules import rules
from openenv.certification.search import search_rewards
from openenv.certification.subject import KnownPlay, Proof, Subject, known_play
from openenv.core.errors import OpenEnvError
from openenv.evaluation.quality import check_environment
from openenv.evaluation.quality.target import failed

SEEDS = 3
"""Runs of training."""
_CHECKS_S = 60.0
_PROOF_SHARE, _MUTANTS_SHARE, _LEARNING_SHARE = 0.025, 0.15, 0.5
_RANDOM_EPISODES = 200
_LOOK = "see the server's log, or give more --minutes"

OnProof = Callable[[Proof], None]


def certify(
    name: str,
    *,
    reset: Mapping[str, Any] | None = None,
    seed: int = 0,
    minutes: float = 8.0,
    trains: bool = True,
    command: str = "",
    on_progress: Callable[[str], None] = lambda _: None,
    on_proof: OnProof = lambda _: None,
) -> Card:
    """Prove what can be proved of an environment. Returns an unsigned card.

    Args:
        name: of the environment, in one of the forms of `openenv.auto.resolver.FORMS`.
        reset: keywords of every reset. Without, a bundled environment has those of its first measured task.
        seed: of the first episode.
        minutes: about what all takes; training has half of it.
        trains: whether a model is trained, too.
        command: written on the card.
        on_progress: called with what is done.
        on_proof: called with each proof when it has ended.

    Raises:
        LookupError: for a name without an environment.
        ImportError: without its extra.
    """
    began, named = time.monotonic(), named_environment(name)
    known = known_play(named, reset or {})
    found, play, source = list[Proof](), None, source_digest(named)
    try:
        for one in _proofs(named, known, seed, minutes, trains, on_progress):
            if isinstance(one, str):
                play = one
            else:
                found.append(one)
                on_proof(one)
    except OpenEnvError as error:  # what has been proved is kept
        found.append(Proof(name="the end", result=failed(f"the next proof could not be made: {error}", _LOOK)))
        on_proof(found[-1])
    return Card(
        name=name,
        version=version_of(named),
        source=source,
        reset=known.reset,
        play=play,
        proofs=[
            {
                "name": one.name,
                "status": one.result.status,
                "seen": one.result.seen,
                "remedy": one.result.remedy,
                "figures": one.figures,
            }
            for one in found
        ],
        command=command,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        minutes=round((time.monotonic() - began) / 60.0, 2),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
    )


def _proofs(
    named: NamedEnvironment,
    known: KnownPlay,
    seed: int,
    minutes: float,
    trains: bool,
    on_progress: Callable[[str], None],
) -> Iterator[Proof | str]:
    """Each proof, and after that of the mutants the digest of recorded play, if there is one."""
    seconds = 60.0 * minutes
    rows = check_environment(
        named.name,
        seed=seed,
        seconds=max(5.0, min(_CHECKS_S, 0.2 * seconds)),
        headers=token_headers(),
        reset=known.reset,
        on_check=lambda check: on_progress(f"checks: {check}"),
    )
    yield from (Proof(name=row.check, result=row.result) for row in rows)
    if rows[0].result.status == "fail":
        return
    with named.served() as served:
        on_progress("random play")
        subject = Subject(named=named, served=served, known=known, seed=seed).timed(_PROOF_SHARE * seconds)
        (random,) = subject.scores([subject.random_policy()], _RANDOM_EPISODES)
        on_progress("good play")
        proof, good = good_play(subject, random)
        yield proof
        on_progress("repeated answer")
        proof, repeated = repeated_answer(subject, random, good)
        yield proof
        on_progress("no answer")
        yield no_answer(subject, [random, repeated])
        on_progress("copied prompt")
        yield copied_prompt(subject, [random, repeated])
        on_progress("hidden answer")
        yield hidden_answer(subject, random, good)
        on_progress("search for reward")
        yield search_rewards(subject, random, good, _PROOF_SHARE * seconds)
        on_progress("signal")
        yield signal(subject)
    proof, play = rules(subject, _MUTANTS_SHARE * seconds, on_progress)
    yield proof
    if play is not None:
        yield play
    if not trains:
        return
    yield learning(subject, _LEARNING_SHARE * minutes / SEEDS, SEEDS, on_progress)
