"""A task of a seed: a company, what to do, and how far its database or the answer is what was wanted."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from openenv.envs.calendar_env.server.company import Company
from openenv.envs.calendar_env.server.database import event_contents
from openenv.envs.calendar_env.server.task_kinds import KINDS, NotThisWeek, Request
from openenv.envs.calendar_env.server.world import DAYS, World, make_world
from openenv.rubrics import Rubric

_MOST_CHANGES = 8
"""Events that a task changes, at most."""
_MOST_COMPANIES = 100
_DRAWS_A_COMPANY = 10
Contents = Mapping[int, tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What an episode asks for."""

    text: str
    company: Company
    """As it is at the start."""
    before: Contents
    after: Contents
    """What the events should be at the end. An event that is not there before has any id."""
    answer: str | None
    """The right answer; None where none is asked for."""

    def progress(self, now: Contents, answer: str | None) -> float:
        """The share of the wanted changes that were made, and of the answer."""
        wanted = [event_id for event_id in self.before if self.before[event_id] != self.after.get(event_id)]
        done = sum(now.get(event_id) == self.after.get(event_id) for event_id in wanted)
        created, left = _new(self.before, self.after), _new(self.before, now)
        for event in created:
            if event in left:
                left.remove(event)
                done += 1
        total = len(wanted) + len(created)
        if self.answer is not None:
            done, total = done + is_answer(self.answer, answer), total + 1
        return done / total

    def is_undamaged(self, now: Contents) -> bool:
        """Whether all else is as it was: no other event has changed, and there are no further ones."""
        kept = [event_id for event_id in self.before if self.before[event_id] == self.after.get(event_id)]
        is_kept = all(now.get(event_id) == self.before[event_id] for event_id in kept)
        return is_kept and len(_new(self.before, now)) <= len(_new(self.before, self.after))


class Progress(Rubric):
    """The share of the wanted changes, and of the answer."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def forward(self, action: str | None, observation: Contents) -> float:
        """action: the answer. observation: the events."""
        return self._task.progress(observation, action)


class Undamaged(Rubric):
    """1 if nothing else has changed, else 0."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def forward(self, action: str | None, observation: Contents) -> float:
        """action: the answer. observation: the events."""
        return float(self._task.is_undamaged(observation))


class Goal(Rubric):
    """1 if all that was wanted is done and nothing else has changed, else 0."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.progress, self.undamaged = Progress(task), Undamaged(task)

    def forward(self, action: str | None, observation: Contents) -> float:
        """action: the answer. observation: the events."""
        return float(min(self.progress(action, observation), self.undamaged(action, observation)) == 1.0)


def make_task(kind: str, level: int, seed: int) -> Task:
    """The task of a seed. Companies are drawn until one of them has what the kind of task needs."""
    rng = Random(f"{kind} {level} {seed}")
    for _ in range(_MOST_COMPANIES):
        world = make_world(rng, level)
        request = _request(kind, world)
        task = None if request is None else _task(world, request)
        if task is not None:
            return task
    raise RuntimeError(f"no task of kind {kind}, level {level}, seed {seed} in {_MOST_COMPANIES} companies")


def _request(kind: str, world: World) -> Request | None:
    """What the kind asks of this company; None if the company lacks what it needs."""
    connection = world.company.connection
    for _ in range(_DRAWS_A_COMPANY):
        connection.execute("BEGIN")
        try:
            request = KINDS[kind](world)
        except NotThisWeek:
            connection.execute("ROLLBACK")
            continue
        connection.execute("COMMIT")
        return request
    return None


def _task(world: World, request: Request) -> Task | None:
    """The task of a request; None if it changes nothing, or too much."""
    before = event_contents(world.company.connection)
    wanted = world.company.copy()
    for change in request.changes:
        change(wanted)
    after = event_contents(wanted.connection)
    num_changes = sum(before.get(event_id) != after.get(event_id) for event_id in before | after)
    if num_changes > _MOST_CHANGES or (not num_changes and request.answer is None):
        return None
    text = f"{_introduction(world)} {request.text}"
    return Task(text=text, company=world.company, before=before, after=after, answer=request.answer)


def is_answer(right: str, given: str | None) -> bool:
    """Whether an answer is right: the same number, or the same word or time in any case of letters."""
    if given is None:
        return False
    try:
        return float(right) == float(given)
    except ValueError:
        return given.strip().lower().lstrip("0") == right.lower().lstrip("0")


def _new(before: Contents, now: Contents) -> list[tuple[Any, ...]]:
    return [event for event_id, event in now.items() if event_id not in before]


def _introduction(world: World) -> str:
    first, last = world.day(0), world.day(len(DAYS) - 1)
    return (
        f"You keep the calendars of a company and act for {world.user}. Times are in {world.company.zone}. "
        f"The week is Monday {first} to Friday {last}. Change nothing that is not asked for, then call finish."
    )
