"""Calls many environments for one session: they are stepped together, and reset automatically."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from openenv.core.env_server.interfaces import Execution
from openenv.core.env_server.runner.env_runner import EncodedResponse, EnvRunner, SubmitCoroutine, not_finite
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments, call_environment
from openenv.core.env_server.runner.sync_vector import SyncVectorEnvironment
from openenv.core.env_server.runner.vector_codec import encode_batch, read_actions, read_env_ids, read_rows, rows_of
from openenv.core.env_server.types import Observation
from openenv.core.env_server.vector_environment import (
    AutoresetBatch,
    ShapeMismatch,
    VectorBatch,
    VectorEnvironment,
    merged,
)
from openenv.core.errors import (
    EnvironmentFault,
    EpisodeOver,
    InvalidMessage,
    NotSupported,
    RequestRefused,
    TimeLimitExceeded,
)
from openenv.core.wire.constants import EPISODE_VERBS
from openenv.core.wire.server_codec import NO_KEYWORDS, error_data, error_json

log = logging.getLogger(__name__)

_PLAIN_VERBS = frozenset({"reset", "step", "state", "save", "load"})
_ASYNC_VERBS = frozenset({"mcp", "describe"})
_EPISODE_OVER = "The episode is over: reset before the next step"


class VectorRunner(EnvRunner):
    """The environments of one vector session. It is itself the runner of environment 0."""

    def __init__(
        self,
        spec: EnvSpec,
        arguments: MethodArguments,
        submit: SubmitCoroutine,
        execution_override: Execution | None = None,
        *,
        num_envs: int,
        autoreset: str,
        stacked: bool,
    ) -> None:
        """Make the environments; the options are those of VectorOptions.

        Raises FactoryFault when that fails, and NotSupported if the process can hold one environment only.
        """
        if num_envs > 1 and spec.limited(2, None) < 2:
            raise NotSupported(
                f"num_envs={num_envs}: one process cannot hold {spec.name} twice; open a session for each"
            )
        super().__init__(spec, arguments, submit, execution_override)
        self._chooses_per_call = bool(self.choosing_verbs)
        self.async_verbs = _ASYNC_VERBS
        self._num_envs = num_envs
        self._autoreset = autoreset
        self._others: list[EnvRunner] = []
        self._vector: VectorEnvironment | None = None
        self._slow_env_ids: set[int] = set()
        """Environments whose last reset ran in a thread."""
        self._seeds: list[int] = []
        """Seeds of the last reset."""
        self._done = np.ones(num_envs, dtype=np.bool_)
        try:
            self._vector = call_environment("vectorized", self.env.vectorized, num_envs) if stacked else None
            self._is_library_vector = self._vector is not None
            if self._vector is None:
                for _ in range(num_envs - 1):  # one by one: `close` then closes those made before one that fails
                    self._others.append(EnvRunner(spec, arguments, submit))
            if stacked and self._vector is None:
                runners = [self, *self._others]
                self._vector = SyncVectorEnvironment(runners, spec.action_cls, spec.observation_cls)
        except BaseException:
            self.close()
            raise
        waits = not (self._is_library_vector or arguments.async_verbs.isdisjoint(EPISODE_VERBS))
        if waits:  # a thread waits for the coroutines of several environments
            self._execution_override = "thread"
        self.choosing_verbs = _PLAIN_VERBS if self._chooses_per_call and not waits else frozenset()

    def execution_for(self, verb: str, data: dict[str, Any]) -> Execution:
        """A thread, if the call takes long in one of the environments or a last reset did, else inline."""
        if verb != "reset":
            is_slow = bool(self._slow_env_ids) or any(one.env.execution != "inline" for one in (self, *self._others))
            return "thread" if is_slow else "inline"
        try:
            env_ids = read_env_ids(data, self._num_envs)
            requests = read_rows(data, "resets", len(env_ids))
        except InvalidMessage:
            return "inline"  # the reset itself raises it
        is_slow = not self._slow_env_ids.issubset(env_ids) or any(map(self._is_slow_reset, requests))
        return "thread" if is_slow else "inline"

    def _is_slow_reset(self, request: Mapping[str, Any]) -> bool:
        return super().execution_for("reset", dict(request)) != "inline"

    def _note_execution(self, env_id: int, request: Mapping[str, Any]) -> None:
        if self._chooses_per_call:
            if self._is_slow_reset(request):
                self._slow_env_ids.add(env_id)
            else:
                self._slow_env_ids.discard(env_id)

    def call(self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any] = NO_KEYWORDS) -> EncodedResponse:
        if verb == "state":
            return EncodedResponse(b'{"states":[' + b",".join(self._states()) + b"]}")
        if verb not in EPISODE_VERBS:
            raise _not_supported(verb)
        env_ids = read_env_ids(data, self._num_envs)
        try:
            if self._vector is None:
                return self._call_each(verb, env_ids, data)
            return self._call_vector(self._vector, verb, env_ids, data)
        except RequestRefused:
            raise
        except Exception as error:  # border: a library's vector may return anything
            log.exception("%s of %d environments failed", verb, len(env_ids))
            raise EnvironmentFault(f"{verb} failed ({type(error).__name__}): see the server's log") from error

    async def call_async(
        self, verb: str, data: dict[str, Any], keywords: Mapping[str, Any] = NO_KEYWORDS
    ) -> EncodedResponse:
        if verb != "describe":
            raise _not_supported(verb)
        return await super().call_async(verb, data)

    def close(self) -> None:
        if self._vector is not None:
            try:
                self._vector.close()
            except BaseException:  # border: as in EnvRunner.close
                log.exception("close() of the vector of %s failed", self._spec.name)
        for runner in self._others:
            runner.close()
        super().close()

    def _states(self) -> list[bytes]:
        if self._is_library_vector:
            raise NotSupported(f"{self._spec.name} keeps no state of each of its environments")
        own = super().call("state", {})
        return [own.data, *(one.call("state", {}).data for one in self._others)]

    def _call_each(self, verb: str, env_ids: Sequence[int], data: dict[str, Any]) -> EncodedResponse:
        began_all = time.perf_counter()
        requests = read_rows(data, "resets" if verb == "reset" else "actions", len(env_ids))
        results = [self._start_one(env_id, verb, one) for env_id, one in zip(env_ids, requests, strict=True)]
        bodies = []
        for env_id, request, result in zip(env_ids, requests, results, strict=True):
            began = time.perf_counter()
            try:
                response = self._runner(env_id)._encode(verb, result(), began)
                self._done[env_id] = response.done
                if verb == "reset":
                    self._note_execution(env_id, request)
                validity = b"truncated" if response.truncated else b"valid"
                bodies.append(b'{"validity":"%b",%b' % (validity, response.data[1:]))
            except TimeLimitExceeded:
                raise  # the limit is that of the whole request
            except RequestRefused as error:
                body = error_json(error_data(error))
                bodies.append(b'{"validity":"%b","error":%b}' % (error.validity.encode(), body))
        took_s = time.perf_counter() - began_all
        return EncodedResponse(
            b'{"answers":[' + b",".join(bodies) + b"]}", environment_s=took_s, num_steps=len(env_ids)
        )

    def _start_one(self, env_id: int, verb: str, data: dict[str, Any]) -> Callable[[], Observation]:
        if verb == "step" and self._done[env_id] and not type(self.env).ALLOWS_STEP_AFTER_DONE:
            return _raise_episode_over
        return self._runner(env_id).start(verb, data)

    def _runner(self, env_id: int) -> EnvRunner:
        return self._others[env_id - 1] if env_id else self

    def _call_vector(
        self, vector: VectorEnvironment, verb: str, env_ids: Sequence[int], data: dict[str, Any]
    ) -> EncodedResponse:
        began = time.perf_counter()
        final: dict[str, Any] = {}
        fields: dict[str, Any] = {}
        if verb == "reset":
            batch = self._reset_rows(vector, env_ids, read_rows(data, "resets", len(env_ids)))
        else:
            actions = read_actions(data, len(env_ids))
            batch, final = self._step_rows(vector, env_ids, actions, names_all=data.get("env_ids") is None)
        returned = time.perf_counter()
        if verb == "reset":
            text_fields = sorted(vector.text_fields)
            fields = {
                "seeds": self._seeds,
                "action_fields": vector.action_fields(),
                "observation_fields": vector.observation_fields(),
                "text_fields": text_fields,
            }
        body, arrays = encode_batch(batch, final, vector, fields)
        took_s = time.perf_counter() - returned
        return EncodedResponse(body, False, False, returned - began, took_s, arrays, len(env_ids))

    def _reset_rows(
        self, vector: VectorEnvironment, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]
    ) -> VectorBatch:
        """Raises InvalidMessage for a wrong seed."""
        seeded = []
        for env_id, request in zip(env_ids, requests, strict=True):
            seed = request.get("seed")
            if seed is not None and (type(seed) is not int or seed < 0):
                raise InvalidMessage(f"seed={seed!r} of environment {env_id}: give a whole number, 0 or more")
            seeded.append({**request, "seed": secrets.randbits(31) if seed is None else seed})
        self._seeds = [request["seed"] for request in seeded]
        batch = self._call_library("reset", vector.reset, env_ids, seeded)
        for row, env_id in enumerate(env_ids):
            if row not in batch.errors:
                self._note_execution(env_id, requests[row])
        return self._started(env_ids, batch)

    def _started(self, env_ids: Sequence[int], batch: VectorBatch) -> VectorBatch:
        self._done[list(env_ids)] = batch.done
        for row in batch.errors:
            self._done[env_ids[row]] = True
        return batch

    def _step_rows(
        self, vector: VectorEnvironment, env_ids: Sequence[int], actions: dict[str, Any], *, names_all: bool
    ) -> tuple[VectorBatch, dict[str, Any]]:
        """The batch, and rows with last observations of the episodes that were reset in the same step."""
        done = self._done if names_all else self._done[list(env_ids)]
        any_done = bool(np.count_nonzero(done))  # a third of the time of any()
        if self._autoreset == "same_step" and not any_done:
            result = self._call_library("step", vector.step_with_autoreset, env_ids, actions)
            if result is not None:
                for row in result.done_rows:
                    self._done[env_ids[row]] = True
                rows = result.ended_rows
                return result.batch, {"rows": rows, "observation": result.final_observation} if rows else {}
        if any_done:
            batch = self._step_live_rows(vector, env_ids, actions, done)
        else:
            batch = self._call_library("step", vector.step, env_ids, actions)
        ended = batch.done
        stepped = [row for row in range(len(env_ids)) if row not in batch.errors] if batch.errors else slice(None)
        self._done[np.asarray(env_ids)[stepped]] = ended[stepped]
        self._end_mismatched(env_ids, batch)
        if self._autoreset != "same_step" or not ended.any():
            return batch, {}
        rows = np.flatnonzero(ended).tolist()
        final = {"rows": rows, "observation": batch.rows(rows)}
        try:
            fresh = self._autoreset_rows(vector, [env_ids[row] for row in rows])
        except TimeLimitExceeded:
            raise
        except RequestRefused as error:  # the steps have happened, the next episodes have not started
            batch.errors.update(dict.fromkeys(rows, error))
            return batch, final
        batch.put(rows, fresh)
        batch.errors.update({rows[row]: error for row, error in fresh.errors.items()})
        self._end_mismatched(env_ids, batch)
        return batch, final

    def _step_live_rows(
        self, vector: VectorEnvironment, env_ids: Sequence[int], actions: Mapping[str, Any], done: Any
    ) -> VectorBatch:
        """Step the environments whose episode goes on; reset the others, or refuse their step."""
        live, ended = np.flatnonzero(~done).tolist(), np.flatnonzero(done).tolist()
        parts = []
        if live:
            taken = {name: rows_of(column, live) for name, column in actions.items()}
            live_ids = [env_ids[row] for row in live]
            parts.append((live, self._call_library("step", vector.step, live_ids, taken)))
        refused: RequestRefused | None = None
        if self._autoreset == "disabled":
            refused = EpisodeOver(_EPISODE_OVER)
        else:
            try:
                fresh = self._autoreset_rows(vector, [env_ids[row] for row in ended])
                fresh.reward[[row for row in range(len(ended)) if row not in fresh.errors]] = 0.0
                parts.append((ended, fresh))
            except TimeLimitExceeded:
                raise
            except RequestRefused as error:  # the steps of the others have happened
                refused = error
        if refused is not None and not parts:
            raise refused
        batch = merged(len(env_ids), parts)
        if refused is not None:
            batch.errors.update(dict.fromkeys(ended, refused))
        return batch

    def _autoreset_rows(self, vector: VectorEnvironment, env_ids: Sequence[int]) -> VectorBatch:
        return self._started(env_ids, self._call_library("reset", vector.autoreset, env_ids))

    def _end_mismatched(self, env_ids: Sequence[int], batch: VectorBatch) -> None:
        """End the episodes whose observations do not have the shapes of the batch."""
        for row, error in batch.errors.items():
            if isinstance(error, ShapeMismatch):
                self._done[env_ids[row]] = True

    def _call_library(self, verb: str, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the vector. A SyncVectorEnvironment translates the errors of each environment itself."""
        if not self._is_library_vector:
            return method(*args)
        result = call_environment(verb, method, *args)
        if verb == "step" and result is not None:
            _refuse_not_finite(result.batch if isinstance(result, AutoresetBatch) else result)
        return result


def _refuse_not_finite(batch: VectorBatch) -> None:
    """Add an error for each row of a step whose reward is no finite number."""
    if np.isfinite(batch.reward).all():
        return
    for row in np.flatnonzero(~np.isfinite(batch.reward)).tolist():
        batch.errors.setdefault(row, EnvironmentFault(not_finite(float(batch.reward[row]))))
        batch.reward[row] = np.nan


def _raise_episode_over() -> Observation:
    raise EpisodeOver(_EPISODE_OVER)


def _not_supported(verb: str) -> NotSupported:
    return NotSupported(f"{verb} applies to one environment: open a session without num_envs")
