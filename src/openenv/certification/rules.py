"""The proof that a change of an environment's rules is noticed: by its recorded play, or by its own tests."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from openenv.auto.environment import NamedEnvironment, token_headers
from openenv.auto.resolver import resolve
from openenv.certification.mutants import Mutant, mutants_of
from openenv.certification.subject import Proof, Subject
from openenv.core.errors import OpenEnvError
from openenv.core.utils import run_async_safely
from openenv.envs.catalog import load
from openenv.evaluation.quality.checks.protocol import reachable
from openenv.evaluation.quality.probe.raw_client import ServerAddress
from openenv.evaluation.quality.probe.recordings import play_all
from openenv.evaluation.quality.target import Target, passed, skipped, warned
from openenv.hosting.local_process import LocalServer
from openenv.installation import PACKAGE_FOLDER

_NAME = "mutants"
_MUTANTS = 24
_EPISODES = 16
_STEPS = 40
_ANSWER_S = 5.0
_TESTS_S = 120.0
_ENOUGH = 0.8


def rules(subject: Subject, seconds: float, on_progress: Callable[[str], None]) -> tuple[Proof, str | None]:
    """Most mutants of the rules change recorded play, or fail the environment's own tests.

    Recorded are 16 episodes of random play and 16 of the first action every time. One that stays unnoticed changes a
    rule that neither they nor the tests reach, or changes nothing.

    Args:
        subject: the environment.
        seconds: for all mutants.
        on_progress: called with what is done.

    Returns the proof, and the digest of recorded play; None where it is not repeated.
    """
    with tempfile.TemporaryDirectory(prefix="openenv-mutants-") as folder:
        place = _copied(subject.named, Path(folder))
        if place is None:
            return _skipped("the source of its rules is not on this machine"), None
        expected = recorded(place.named, subject, place.variables)
        if expected != recorded(place.named, subject, place.variables):
            return _skipped("equal seeds do not give equal play, so that a change would not show"), None
        found = [mutant for path in place.files for mutant in mutants_of(path)]
        if not found:
            return _skipped("the source of its rules has nothing to change"), expected
        chosen = sorted(Random(subject.seed).sample(range(len(found)), min(_MUTANTS, len(found))))
        deadline, unnoticed, tried = time.monotonic() + seconds, list[Mutant](), 0
        for number in chosen:
            if tried and time.monotonic() > deadline:
                break
            tried += 1
            on_progress(f"mutants: {tried} of {len(chosen)}")
            with _written(found[number]):
                if not _is_noticed(place, subject, expected):
                    unnoticed.append(found[number])
    share = 1 - len(unnoticed) / tried
    seen = f"{tried - len(unnoticed)} of {tried} mutants of {len(found)} are noticed"
    figures = {"mutants": tried, "noticed": tried - len(unnoticed), "unnoticed": [str(one) for one in unnoticed]}
    if unnoticed:
        seen += f"; not noticed: {'; '.join(map(str, unnoticed[:6]))}"
    result = passed(seen) if share >= _ENOUGH else warned(seen, "write tests of these rules, in the folder's tests")
    return Proof(name=_NAME, result=result, figures=figures), expected


def _skipped(reason: str) -> Proof:
    return Proof(name=_NAME, result=skipped(reason))


def recorded(named: NamedEnvironment, subject: Subject, variables: Mapping[str, str] | None = None) -> str:
    """The SHA-256 of all frames that a new server of an environment answers recorded play with.

    variables: environment variables of the server. Raises OpenEnvError where it does not start or does not answer.
    """
    provider = named.provider(env_vars=variables)
    assert isinstance(provider, LocalServer)
    with provider:
        return run_async_safely(_frames(provider.base_url, subject))


async def _frames(base_url: str, subject: Subject) -> str:
    address = ServerAddress(base_url=base_url, timeout_s=_ANSWER_S, headers=token_headers())
    target = Target(address=address, seed=subject.seed, reset=subject.reset)
    answer = await reachable(target)
    if answer.status == "fail":
        raise OpenEnvError(answer.seen)
    digest = hashlib.sha256()
    for policy in (target.random_policy("recorded"), target.first_action_policy()):
        seeds = range(subject.seed, subject.seed + _EPISODES)
        async with target.client() as client:
            for one in await play_all(client, seeds, policy, _STEPS):
                digest.update("\n".join(one.frames).encode())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class _Copy:
    """A copy of an environment whose files may be changed."""

    named: NamedEnvironment
    files: list[Path]
    """With rules."""
    variables: Mapping[str, str]
    """Of its server."""
    tests: Path | None = None


def _copied(named: NamedEnvironment, folder: Path) -> _Copy | None:
    """A copy of the environment in a folder; None where its source is not here."""
    source, ignored = resolve(named.name), shutil.ignore_patterns("__pycache__", ".git", ".venv*", "runs")
    variables = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": _path(str(folder))}
    if source.kind == "folder":
        copied = folder / source.folder.resolve().name
        shutil.copytree(source.folder, copied, ignore=ignored)
        tests = copied / "tests"
        return _Copy(
            named=replace(named, name=str(copied), served_as=str(copied)),
            files=_with_rules(copied),
            variables=variables,
            tests=tests if any(tests.glob("test_*.py")) else None,
        )
    if source.kind == "program" and ".py:" in named.name:
        file, _, attribute = named.name.rpartition(":")
        copied = folder / Path(file).name
        shutil.copy(file, copied)
        variables["PYTHONPATH"] = _path(str(Path(file).resolve().parent))  # what it imports lies beside it
        target = f"{copied}:{attribute}"
        return _Copy(named=replace(named, name=target, served_as=target), files=[copied], variables=variables)
    if named.info is not None and named.info.package == "openenv-rl":
        shutil.copytree(PACKAGE_FOLDER, folder / PACKAGE_FOLDER.name, ignore=ignored)
        within = load(named.info.key).folder.relative_to(PACKAGE_FOLDER)
        files = _with_rules(folder / PACKAGE_FOLDER.name / within)
        return _Copy(named=named, files=files, variables=variables)
    return None


def _path(first: str) -> str:
    return os.pathsep.join([first, *filter(None, [os.environ.get("PYTHONPATH")])])


def _with_rules(folder: Path) -> list[Path]:
    """The files of the server, in which the rules are; without a folder `server`, all but tests and client."""
    files = sorted((folder / "server").rglob("*.py")) or [
        path for path in sorted(folder.glob("*.py")) if path.name not in ("client.py", "setup.py")
    ]
    return [path for path in files if path.name not in ("app.py", "__init__.py")]


@contextlib.contextmanager
def _written(mutant: Mutant) -> Iterator[None]:
    """The mutant in the place of its file."""
    original = mutant.path.read_text(encoding="utf-8")
    mutant.path.write_text(mutant.source, encoding="utf-8")
    try:
        yield
    finally:
        mutant.path.write_text(original, encoding="utf-8")


def _is_noticed(place: _Copy, subject: Subject, expected: str) -> bool:
    try:
        if recorded(place.named, subject, place.variables) != expected:
            return True
    except OpenEnvError:
        return True  # it does not start, refuses what was accepted, or hangs
    return place.tests is not None and not _passes(place.tests, place.variables)


def _passes(tests: Path, variables: Mapping[str, Any]) -> bool:
    """Whether the environment's own tests pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(tests)]
    try:
        ended = subprocess.run(
            command,
            cwd=tests.parent.parent,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TESTS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
