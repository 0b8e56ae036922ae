"""A search for reward: sequences of actions that earn more than good play does.

A policy that is trained finds such sequences too. They are repetitions, extreme values, and what a hill climb over
random play finds: the best sequence so far is changed in a few places, or a part of it is repeated.
"""

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson

from openenv.certification.subject import Proof, Score, Subject, shown_action
from openenv.core.errors import OpenEnvError, RequestRefused
from openenv.evaluation.quality.target import CheckResult, failed, passed, warned
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import resolved

_SEEDS = 3
_POOL = 24
"""Actions to choose from, where the observation does not count them."""
_CYCLES = 3
"""Length of the repetitions that are tried first, at most."""
_TOLERANCE = 1e-6
_RETURNS_OFTEN = 3
"""Times that an observation comes back, each with more reward, before that counts as a loop."""
_SHOWN = 24
"""Actions that a person is shown."""
_EXTREMES = (-1, 10**6, -(10**6))


@dataclass(frozen=True, slots=True)
class _Found:
    """An episode of the search."""

    genes: tuple[int, ...]
    """The number of each action: among the legal ones, or in the pool."""
    seed: int
    total: float
    steps: int
    has_loop: bool
    """Whether an observation came back often, with more reward each time."""
    actions: tuple[str, ...]
    """The first ones."""

    def __str__(self) -> str:
        more = "" if self.steps <= len(self.actions) else ", ..."
        return f"{', '.join(self.actions)}{more} (seed {self.seed})"


def search_rewards(subject: Subject, random: Score, good: Score | None, seconds: float) -> Proof:
    """No sequence of actions earns more than good play, and none earns reward in a loop that changes nothing.

    seconds: of the search.
    """
    with subject.served.client() as client:
        search = _Search(subject, client)
        best, loop = search.run(seconds)
    figures = {"highest": best.total, "steps": best.steps, "seed": best.seed, "episodes": search.num_episodes}
    result = _judged(search, best, loop, random, good, subject.known.best_return)
    return Proof(name="search for reward", result=result, figures=figures)


def _judged(
    search: "_Search", best: _Found, loop: _Found | None, random: Score, good: Score | None, best_return: float | None
) -> CheckResult:
    """What the search shows. A single episode may earn more than the best mean return: what good play earned at most is
    compared, too."""
    seen = f"{search.num_episodes} episodes: the highest return is {best.total:+.3g} in {best.steps} steps"
    if good is not None:
        ceiling = max(good.highest, -math.inf if best_return is None else best_return)
        seen += f"; the most of good play is {ceiling:+.3g}"
        if best.total > ceiling + _TOLERANCE * max(1.0, abs(ceiling)):
            seen += f": {best}"
            remedy = "look at this episode: does it do what the reward is for? Pay once, and only for the goal"
            is_far_above = best.total > ceiling + max(abs(ceiling), _TOLERANCE)
            return failed(seen, remedy) if is_far_above else warned(seen, remedy)
    else:
        seen += f"; random play {random}"
    if loop is not None:
        seen += f". An observation comes back again and again, each time with more reward: {loop}"
        return warned(seen, "pay for the same thing once, or show in the observation what has changed")
    return passed(seen)


class _Search:
    """The search in one session."""

    def __init__(self, subject: Subject, client: Any) -> None:
        self._subject, self._client = subject, client
        self._rng = Random(subject.seed)
        self._pool = self._actions()
        self.num_episodes = 0

    def run(self, seconds: float) -> tuple[_Found, _Found | None]:
        """The best episode, and one with a loop if there is any."""
        deadline, loop = time.monotonic() + seconds, None
        best: _Found | None = None
        for genes in itertools.chain(self._repetitions(), itertools.repeat(None)):
            seed = self._subject.seed + self.num_episodes % _SEEDS
            if genes is None:
                assert best is not None
                genes, seed = self._changed(best.genes), best.seed
            found = self._play(seed, genes)
            loop = loop or (found if found.has_loop else None)
            if best is None or found.total > best.total:
                best = found
            if time.monotonic() > deadline:
                break
        assert best is not None
        return best, loop

    def _repetitions(self) -> Sequence[tuple[int, ...]]:
        """Each action over and over, then each short cycle, and random play."""
        length, number = self._subject.max_steps, min(len(self._pool), 8)
        cycles = itertools.chain.from_iterable(
            itertools.product(range(number), repeat=size) for size in range(1, _CYCLES + 1)
        )
        repeated = [tuple(itertools.islice(itertools.cycle(cycle), length)) for cycle in cycles]
        extremes = [(place,) * length for place in range(number, len(self._pool))]
        drawn = [tuple(self._rng.randrange(_POOL) for _ in range(length)) for _ in range(30)]
        self._rng.shuffle(repeated)
        return [*repeated[:60], *extremes, *drawn]

    def _changed(self, genes: tuple[int, ...]) -> tuple[int, ...]:
        """A sequence with a few other actions, or with a part of it repeated."""
        changed = list(genes)
        if self._rng.random() < 0.3 and len(genes) > 1:
            start = self._rng.randrange(len(genes))
            part = genes[start : start + self._rng.randint(1, 8)]
            changed = [*genes[: start + len(part)], *part * self._rng.randint(1, 20), *genes[start + len(part) :]]
            return tuple(changed[: self._subject.max_steps])
        for _ in range(self._rng.randint(1, 4)):
            changed[self._rng.randrange(len(changed))] = self._rng.randrange(_POOL)
        return tuple(changed)

    def _play(self, seed: int, genes: tuple[int, ...]) -> _Found:
        self.num_episodes += 1
        result = self._client.reset(seed=seed, **self._subject.reset)
        total, steps, came_back = 0.0, 0, 0
        seen, actions = dict[bytes, float](), list[str]()
        for gene in genes:
            if result.done:
                break
            action = self._action(result.observation, gene)
            try:
                result = self._client.step(action)
            except RequestRefused:
                continue  # the next action may be legal
            except OpenEnvError:
                break
            steps += 1
            if len(actions) < _SHOWN:
                actions.append(shown_action(action))
            total += float(result.reward or 0.0)
            key = _key(result.observation)
            if key in seen and total > seen[key] + _TOLERANCE:
                came_back += 1
            if key not in seen or total > seen[key]:
                seen[key] = total
        # where all observations are equal, they do not show what has changed
        has_loop = came_back >= _RETURNS_OFTEN and 1 < len(seen) < steps
        return _Found(genes, seed, total, steps, has_loop, tuple(actions))

    def _action(self, observation: Any, gene: int) -> Any:
        choices = list(self._subject.served.text.replies(observation).values())
        legal = getattr(observation, "legal_actions", None)
        if legal and not choices:
            choices = list(legal)
        return choices[gene % len(choices)] if choices else self._pool[gene % len(self._pool)]

    def _actions(self) -> list[Any]:
        """Those that the first observation counts; else actions of random play, also with extreme numbers."""
        _, observation = next(self._subject.beginnings(self._client, 1))
        counted = self._subject.served.text.replies(observation)
        if counted:
            return list(counted.values())
        schema = message_schema(self._client._message_classes[0])
        drawn: dict[str, Any] = {}
        for seed in range(_POOL):
            action = self._subject.random_policy(seed).select_action(observation)
            drawn.setdefault(repr(action), action)
        pool = list(drawn.values())
        for field, extreme in _extremes(schema):
            try:
                pool.append(type(pool[0])(**{**pool[0].model_dump(), field: extreme}))
            except ValueError:
                continue  # the schema's own bounds refuse it
        return pool


def _extremes(schema: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Each field that is a number, with its bounds, or with numbers that an author may not have thought of."""
    found = []
    for name, part in schema.get("properties", {}).items():
        declared = resolved(schema, part)
        if declared.get("type") in ("integer", "number"):
            bounds = [declared[bound] for bound in ("minimum", "maximum") if bound in declared]
            found += [(name, value) for value in dict.fromkeys([*bounds, *_EXTREMES])]
    return found


def _key(observation: Any) -> bytes:
    """What an observation shows, without its reward."""
    shown = observation.model_dump(mode="json", exclude={"reward", "done", "metadata"})
    return orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
