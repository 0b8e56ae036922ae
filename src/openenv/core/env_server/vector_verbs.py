"""The verbs of a session of many environments: rows are checked, stepped together, reset by themselves, and packed."""

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from openenv.core.arrays import Buffers
from openenv.core.env_server.authors_code import AuthorsCode
from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.each_in_turn import EachInTurn
from openenv.core.env_server.inline_limit import InlineTimeLimit
from openenv.core.env_server.loop_thread import LoopThread
from openenv.core.env_server.manner import VectorManner
from openenv.core.env_server.types import Observation
from openenv.core.env_server.vector_environment import Batch, Column, DoesNotStack, VectorEnvironment, merged
from openenv.core.env_server.verbs import LOOK_S, WHERE, Answer, Verbs, VerbSignatures
from openenv.core.env_server.wire import error_data, error_json
from openenv.core.errors import (
    EnvironmentFault,
    EpisodeOver,
    InvalidMessage,
    NotSupported,
    RequestRefused,
    TimeLimitExceeded,
)

log = logging.getLogger(__name__)

_PLAYED = frozenset({"reset", "step"})
_ASYNC = frozenset({"mcp", "describe"})
_OVER = "The episode is over: reset before the next step"


class VectorVerbs(Verbs):
    """The environments of one vector session, and what they answer together."""

    def __init__(
        self, declaration: Declaration, signatures: VerbSignatures, loop: LoopThread, manner: VectorManner
    ) -> None:
        """Make the environments. Raises FactoryFault when that fails, NotSupported where there can be but one."""
        if manner.num_envs > 1 and declaration.limited(2, None) < 2:
            raise NotSupported(
                f"num_envs={manner.num_envs}: {declaration.name} cannot be there twice in one process; open a session "
                "for each"
            )
        super().__init__(declaration, signatures, loop)
        self.steps_plainly = False
        self._manner = manner
        self._num_envs = manner.num_envs
        self._others: list[Verbs] = []
        self._vector: VectorEnvironment | None = None
        self._took_long: set[int] = set()
        """Whose last reset did not run in the event loop."""
        self._seeds: list[int] = []
        """Of the last reset."""
        self._over = np.ones(manner.num_envs, dtype=np.bool_)
        try:
            self._vector = self._made()
            self._each_has_its_own = self._vector is None or isinstance(self._vector, EachInTurn)
            """Whether each environment has verbs of its own, and is not one of a library's vector."""
            self._waits = self._each_has_its_own and not signatures.asynchronous.isdisjoint(_PLAYED)
        except BaseException:
            self.close()
            raise

    def _made(self) -> VectorEnvironment | None:
        """The environments to be stepped together; None where each answers for itself."""
        if self._manner.stacked:
            with AuthorsCode("vectorized"):
                vector = self.env.vectorized(self._num_envs)
            if vector is not None:
                return vector
        for _ in range(self._num_envs - 1):
            self._others.append(Verbs(self._declaration, self._signatures, self._loop))
        classes = self._declaration.action_cls, self._declaration.observation_cls
        return EachInTurn([self, *self._others], *classes) if self._manner.stacked else None

    def execution(self, verb: str, data: dict[str, Any]) -> str:
        """As for one environment, where a call takes long when it does in one of them, or when a last reset did; but to
        wait for several asynchronous ones is a thread's work."""
        where = self.told or self.env.execution
        if self.told is None and self._tells_calls_apart:
            with InlineTimeLimit(WHERE, LOOK_S):
                takes_long = self._takes_long(verb, data)
            where = "thread" if takes_long else "inline"
        return "thread" if where == "inline" and self._waits else where

    def _takes_long(self, verb: str, data: Mapping[str, Any]) -> bool:
        if verb != "reset":
            where = (one.env.execution for one in (self, *self._others))
            return bool(self._took_long) or any(place != "inline" for place in where)
        try:
            env_ids = self._env_ids(data)
            requests = _list_of(data, "resets", len(env_ids))
        except InvalidMessage:
            return False  # the reset itself will say so
        others_took_long = not self._took_long.issubset(env_ids)
        return others_took_long or any(self._execution_for(WHERE, "reset", request) != "inline" for request in requests)

    def _has_begun(self, env_id: int, request: Mapping[str, Any]) -> None:
        if self._tells_calls_apart:
            if self._execution_for(WHERE, "reset", request) == "inline":
                self._took_long.discard(env_id)
            else:
                self._took_long.add(env_id)

    def is_async(self, verb: str) -> bool:
        return verb in _ASYNC

    def runs_at_once(self, verb: str, data: dict[str, Any]) -> bool:
        return verb not in _ASYNC and self.execution(verb, data) == "inline"

    def call(self, verb: str, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        if verb in _ASYNC:
            return self._loop.submit(self.call_async(verb, data, options)).result()
        if verb == "state":
            return Answer(b'{"states":[' + b",".join(self._states()) + b"]}")
        if verb not in _PLAYED:
            raise NotSupported(f"{verb} is of one environment: open a session without num_envs")
        env_ids = self._env_ids(data)
        try:
            if self._vector is None:
                return self._each(verb, env_ids, data)
            return self._together(self._vector, verb, env_ids, data)
        except RequestRefused:
            raise
        except Exception as error:  # border: what was stepped has an answer, whatever went wrong with it
            log.exception("%s of %d environments failed", verb, len(env_ids))
            raise EnvironmentFault(f"{verb} failed ({type(error).__name__}): the server's log says more") from error

    async def call_async(self, verb: str, data: dict[str, Any], options: dict[str, Any]) -> Answer:
        raise NotSupported(f"{verb} is of one environment: open a session without num_envs")

    def close(self) -> None:
        if self._vector is not None:
            try:
                self._vector.close()
            except (Exception, SystemExit):  # border: as in Verbs.close
                log.exception("close() of the vector of %s failed", self._declaration.name)
        for verbs in self._others:
            verbs.close()
        super().close()

    def _states(self) -> list[bytes]:
        if self._each_has_its_own:
            mine = super().call("state", {}, {})
            return [mine.data, *(one.call("state", {}, {}).data for one in self._others)]
        raise NotSupported(f"{self._declaration.name} keeps no state of each of its environments")

    # One whole answer for each environment.

    def _each(self, verb: str, env_ids: Sequence[int], data: dict[str, Any]) -> Answer:
        asked_at = time.perf_counter()
        asked = _list_of(data, "resets" if verb == "reset" else "actions", len(env_ids))
        ends = [self._begin_one(env_id, verb, one) for env_id, one in zip(env_ids, asked, strict=True)]
        answers = []
        for env_id, one, end in zip(env_ids, asked, ends, strict=True):
            began = time.perf_counter()
            try:
                answer = self._answer(verb, end(), began)
                self._over[env_id] = answer.done
                if verb == "reset":
                    self._has_begun(env_id, one)
                answers.append(
                    b'{"validity":"%b",%b' % (b"truncated" if answer.truncated else b"valid", answer.data[1:])
                )
            except TimeLimitExceeded:
                raise  # it is the limit of them all
            except RequestRefused as error:
                said = error_json(error_data(error))
                answers.append(b'{"validity":"%b","error":%b}' % (error.validity.encode(), said))
        body = b'{"answers":[' + b",".join(answers) + b"]}"
        return Answer(body, environment_s=time.perf_counter() - asked_at, num_steps=len(env_ids))

    def _begin_one(self, env_id: int, verb: str, data: dict[str, Any]) -> Callable[[], Observation]:
        if verb == "step" and self._over[env_id] and not type(self.env).ALLOWS_STEP_AFTER_DONE:
            return _refuse_step
        return (self._others[env_id - 1] if env_id else self).begin(verb, data)

    # One array for each field.

    def _together(self, vector: VectorEnvironment, verb: str, env_ids: Sequence[int], data: dict[str, Any]) -> Answer:
        began = time.perf_counter()
        final: dict[str, Any] = {}
        if verb == "reset":
            batch = self._reset_rows(vector, env_ids, _list_of(data, "resets", len(env_ids)))
        else:
            batch, final = self._step_rows(vector, env_ids, data)
        returned = time.perf_counter()
        buffers = Buffers()
        body = _said(batch, final, vector, buffers)
        if verb == "reset":
            fields = {"action_fields": vector.action_fields(), "text_fields": sorted(vector.texts)}
            body |= {"seeds": self._seeds, **fields}
        try:
            packed = orjson.dumps(body, default=_plain)
        except TypeError:  # half a surrogate pair, an integer beyond 64 bits
            packed = error_json(body)
        took_s = time.perf_counter() - returned
        return Answer(packed, False, False, returned - began, took_s, buffers.parts, len(env_ids))

    def _reset_rows(
        self, vector: VectorEnvironment, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]
    ) -> Batch:
        """Raises InvalidMessage for a seed that is none."""
        seeded = []
        for env_id, request in zip(env_ids, requests, strict=True):
            seed = request.get("seed")
            if seed is not None and (type(seed) is not int or seed < 0):
                raise InvalidMessage(f"seed={seed!r} of environment {env_id}: give a whole number, 0 or more")
            seeded.append({**request, "seed": secrets.randbits(31) if seed is None else seed})
        self._seeds = [request["seed"] for request in seeded]
        try:
            with self._authors_code("reset"):
                batch = vector.reset(env_ids, seeded)
        except DoesNotStack:
            self._over[list(env_ids)] = True  # nobody has seen how they began
            raise
        for row, env_id in enumerate(env_ids):
            if row not in batch.errors:
                self._has_begun(env_id, requests[row])
        return self._begun(env_ids, batch)

    def _begun(self, env_ids: Sequence[int], batch: Batch) -> Batch:
        self._over[list(env_ids)] = batch.over
        for row in batch.errors:
            self._over[env_ids[row]] = True
        return batch

    def _step_rows(
        self, vector: VectorEnvironment, env_ids: Sequence[int], data: dict[str, Any]
    ) -> tuple[Batch, dict[str, Any]]:
        """What follows, and the last observations of episodes whose place a new one has taken."""
        actions = data.get("actions")
        if not isinstance(actions, dict) or not actions:
            raise InvalidMessage("actions: give an object with a column for each field of the action")
        for name, column in actions.items():
            is_column = column.ndim > 0 if isinstance(column, np.ndarray) else isinstance(column, list)
            if not is_column or len(column) != len(env_ids):
                raise InvalidMessage(f"actions.{name}: give one value for each of {len(env_ids)} environments")
        over = self._over if data.get("env_ids") is None else self._over[list(env_ids)]
        some_wait = bool(np.count_nonzero(over))  # in a third of the time of any()
        if self._manner.autoreset == "same_step" and not some_wait:
            with self._authors_code("step"):
                passed = vector.step_and_begin_next(env_ids, actions)
            if passed is not None:
                for row in passed.over_again:
                    self._over[env_ids[row]] = True
                return passed.batch, {"rows": passed.rows, "observation": passed.last} if passed.rows else {}
        if some_wait:
            batch = self._step_some(vector, env_ids, actions, over)
        else:
            batch = self._stepped(vector, env_ids, actions)
        ended = batch.over
        went_on = [row for row in range(len(env_ids)) if row not in batch.errors] if batch.errors else slice(None)
        self._over[np.asarray(env_ids)[went_on]] = ended[went_on]  # the others are as they were
        self._give_up(env_ids, batch)
        if self._manner.autoreset != "same_step" or not ended.any():
            return batch, {}
        rows = np.flatnonzero(ended).tolist()
        final = {"rows": rows, "observation": batch.rows(rows)}
        try:
            fresh = self._begin_next(vector, [env_ids[row] for row in rows])
        except TimeLimitExceeded:
            raise
        except RequestRefused as error:  # their steps have happened, their next episodes have not begun
            batch.errors.update(dict.fromkeys(rows, error))
            return batch, final
        batch.put(rows, fresh)
        batch.errors.update({rows[row]: error for row, error in fresh.errors.items()})
        self._give_up(env_ids, batch)
        return batch, final

    def _give_up(self, env_ids: Sequence[int], batch: Batch) -> None:
        """An episode whose observations have no place beside the others' is over: the next may have one."""
        for row, error in batch.errors.items():
            if isinstance(error, DoesNotStack):
                self._over[env_ids[row]] = True

    def _begin_next(self, vector: VectorEnvironment, env_ids: Sequence[int]) -> Batch:
        with self._authors_code("reset"):
            batch = vector.begin_next(env_ids)
        return self._begun(env_ids, batch)

    def _stepped(self, vector: VectorEnvironment, env_ids: Sequence[int], actions: Mapping[str, Any]) -> Batch:
        with self._authors_code("step"):
            return vector.step(env_ids, actions)

    def _authors_code(self, verb: str) -> contextlib.AbstractContextManager[None]:
        """Around what a library's vector does; environments that are stepped in turn see to each of themselves."""
        return contextlib.nullcontext() if self._each_has_its_own else AuthorsCode(verb)

    def _step_some(
        self, vector: VectorEnvironment, env_ids: Sequence[int], actions: Mapping[str, Any], over: Any
    ) -> Batch:
        """Step those whose episode goes on; the others begin a new one, or are refused."""
        live, waiting = np.flatnonzero(~over).tolist(), np.flatnonzero(over).tolist()
        parts = []
        if live:
            taken = {name: _rows_of(column, live) for name, column in actions.items()}
            parts.append((live, self._stepped(vector, [env_ids[row] for row in live], taken)))
        refused: RequestRefused | None = None
        if self._manner.autoreset == "disabled":
            refused = EpisodeOver(_OVER)
        else:
            try:
                fresh = self._begin_next(vector, [env_ids[row] for row in waiting])
                fresh.reward[[row for row in range(len(waiting)) if row not in fresh.errors]] = 0.0
                parts.append((waiting, fresh))
            except TimeLimitExceeded:
                raise
            except RequestRefused as error:  # the steps of the others have happened
                refused = error
        if refused is not None and not parts:
            raise refused
        batch = merged(len(env_ids), parts)
        if refused is not None:
            batch.errors.update(dict.fromkeys(waiting, refused))
        return batch

    def _all(self) -> list[int]:
        return list(range(self._num_envs))

    def _env_ids(self, data: Mapping[str, Any]) -> list[int]:
        """The environments that a request means: all of them where it names none."""
        env_ids = data.get("env_ids")
        if env_ids is None:
            return self._all()
        if isinstance(env_ids, np.ndarray):
            env_ids = env_ids.tolist()
        is_list = isinstance(env_ids, list) and bool(env_ids)
        if not is_list or not all(type(env_id) is int and 0 <= env_id < self._num_envs for env_id in env_ids):
            raise InvalidMessage(f"env_ids: give a list of numbers from 0 to {self._num_envs - 1}")
        if len(set(env_ids)) < len(env_ids):
            raise InvalidMessage("env_ids: an environment is named twice")
        return list(env_ids)


def _refuse_step() -> Observation:
    raise EpisodeOver(_OVER)


def _rows_of(column: Any, rows: Sequence[int]) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]


def _list_of(data: Mapping[str, Any], key: str, length: int) -> list[dict[str, Any]]:
    """The objects of a request, one for each environment that it means; a reset may leave them out."""
    said = data.get(key)
    if said is None and key == "resets":
        return [{} for _ in range(length)]
    if not isinstance(said, list) or len(said) != length or not all(isinstance(one, dict) for one in said):
        raise InvalidMessage(f"{key}: give a list of objects, one for each of {length} environments")
    return said


def _said(batch: Batch, final: Mapping[str, Any], vector: VectorEnvironment, buffers: Buffers) -> dict[str, Any]:
    """A batch and the last observations as they travel: arrays in `buffers`, the rest as it is."""
    said: dict[str, Any] = {
        "observation": _packed(batch.observation, vector, buffers),
        "reward": buffers.add(batch.reward),
        "terminated": buffers.add(batch.terminated),
        "truncated": buffers.add(batch.truncated),
    }
    if batch.errors:
        said["errors"] = {str(row): error_data(error) for row, error in batch.errors.items()}
    if final:
        rows = buffers.add(np.array(final["rows"]))
        said["final"] = {"rows": rows, "observation": _packed(final["observation"], vector, buffers)}
    return said


def _packed(columns: Mapping[str, Column], vector: VectorEnvironment, buffers: Buffers) -> dict[str, Any]:
    """Columns as they travel. What was refused has no row: no numbers stand there, or no text."""
    said: dict[str, Any] = {}
    for name, column in columns.items():
        if name in vector.ragged:
            rows = [() if row is None else row for row in column]
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
            values = np.array([value for row in rows for value in row], dtype=np.int64)
            said[name] = {"values": buffers.add(values), "offsets": buffers.add(offsets)}
        elif isinstance(column, list):
            said[name] = ["" if row is None else row for row in column] if name in vector.texts else column
        else:
            said[name] = buffers.add(column)
    return said


def _plain(value: Any) -> Any:
    """What stands in a list: messages, numpy's numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
