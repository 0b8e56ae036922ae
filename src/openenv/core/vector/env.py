"""Many environments of one server behind Gymnasium's vector interface."""

import contextlib
import itertools
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, Self

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from openenv.core.client.address import Address, Endpoint
from openenv.core.client.blocking_transport import BlockingSession
from openenv.core.client.session import Pending
from openenv.core.errors import AnswerTimeout, NotSupported, OpenEnvError
from openenv.core.net.forks import ProcessBound
from openenv.core.utils import check_options, check_type
from openenv.core.vector.responses import ObservationLayout, Part, Step
from openenv.core.vector.spaces import columns_of, one_observation_space, single_action_space
from openenv.core.wire.client_codec import Request

Autoreset = Literal["next_step", "same_step", "disabled"]

_MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


@dataclass(slots=True, eq=False)
class _Shard:
    """The environments of one session, and its request that is under way."""

    session: BlockingSession
    env_ids: range
    requested: Sequence[int] = ()
    """The environments of the request."""
    pending: Pending | None = None

    def send(self, kind: str, env_ids: Sequence[int], data: dict[str, Any]) -> None:
        if list(env_ids) != list(self.env_ids):
            data = {"env_ids": [env_id - self.env_ids.start for env_id in env_ids], **data}
        self.pending = self.session.send(Request(kind, data, has_arrays=True))
        self.requested = env_ids

    def receive(self, timeout_s: float) -> Part:
        """After AnswerTimeout the response can be received later."""
        assert self.pending is not None
        try:
            data = self.session.receive(self.pending, timeout_s)
        except OpenEnvError as error:
            if not isinstance(error, AnswerTimeout):
                self.pending = None
            raise
        self.pending = None
        return self.requested, data


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any], ProcessBound):
    """`num_envs` environments that are stepped together: one request, one response, one array for each field.

    Example:
        with OpenSpielEnv(base_url=url).vector(256, autoreset="same_step") as envs:
            observations, infos = envs.reset(seed=7)
            observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

    When one environment fails, `infos["failed"]` is True there, its reward is NaN, and `infos["errors"]` has the
    exception by number; the others go on. Arrays are read-only views of the server's response.

    With num_sessions above 1 the environments are spread over as many sessions of the server, which may run them at the
    same time; `send` and `recv` then step those that are ready.
    """

    def __init__(
        self,
        address: Address,
        num_envs: int,
        *,
        autoreset: Autoreset = "next_step",
        num_sessions: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Connect, and reset once to learn the spaces.

        autoreset: when an environment whose episode has ended begins the next one: at the step after (Gymnasium's
        default); at once, with the last observation in `infos["final_obs"]` and what has no place in it in
        `infos["final_info"]`; or only by `reset`. options: keywords of every reset, such as a game's name. Raises
        ValueError for numbers that do not fit, ServerUnreachable, and NotSupported when the server holds one
        environment in a session.
        """
        for name, number in (("num_envs", num_envs), ("num_sessions", num_sessions)):
            check_type(name, number, Integral, "a whole number from 1 on")
        check_options(options)
        if not isinstance(autoreset, str) or autoreset not in _MODES:
            raise ValueError(f"autoreset={autoreset!r:.50}: give one of {', '.join(_MODES)}")
        if not 1 <= num_sessions <= num_envs:
            raise ValueError(f"num_sessions={num_sessions}: give 1 to num_envs={num_envs}")
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": _MODES[autoreset]}
        self.response_timeout_s = address.message_timeout_s
        """Limit of a response."""
        self._options = dict(options or {})
        self.after_close: list[Callable[[], object]] = []
        """Called when the sessions have ended: stops a server that was started for them."""
        ProcessBound.__init__(self)
        self._shards: list[_Shard] = []
        self._layout = ObservationLayout()
        bounds = [round(number * num_envs / num_sessions) for number in range(num_sessions + 1)]
        self._shard_of = np.repeat(np.arange(num_sessions), np.diff(bounds))
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.close)
            for first, end in itertools.pairwise(bounds):
                query = f"num_envs={end - first}&autoreset={autoreset}"
                session = BlockingSession(Endpoint(replace(address, query=query, reads_arrays=True)))
                self._shards.append(_Shard(session, range(first, end)))
                session.connect()
                if "vector" not in session.hello:
                    raise NotSupported(
                        f"{address.base_url} holds one environment in a session: open a session for each"
                    )
            observations, infos = self.reset()
            self.action_fields: dict[str, Any] = infos["action_fields"]
            """The description of each field of an action: `{"n": 3}`, or a JSON schema."""
            self.single_action_space, self.action_field = single_action_space(self.action_fields)
            self.action_space = batch_space(self.single_action_space, num_envs)
            space, self.observation_field = one_observation_space(observations, infos["observation_fields"])
            self.single_observation_space = space
            self.observation_space = batch_space(self.single_observation_space, num_envs)
            self._layout.learn(observations, self.observation_field)
            on_error.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes. seed: of the first environment, the others count on from it; or one for each.

        options: `reset_mask`, a boolean array (num_envs,) of the environments to reset, whose results alone are
        returned (see infos["env_ids"]); all else goes to the environments' own `reset`. infos["seeds"] has the seeds
        that were used. Raises EnvironmentFault when observations break the observation space.
        """
        keywords = {**self._options, **(options or {})}
        mask = keywords.pop("reset_mask", None)
        env_ids = range(self.num_envs) if mask is None else np.flatnonzero(np.asarray(mask, dtype=np.bool_)).tolist()
        if not env_ids:
            raise ValueError("reset_mask: no environment is to be reset")
        seeds = self._seeds(seed, env_ids)
        requests = [keywords if one is None else {**keywords, "seed": one} for one in seeds]
        observations, _, _, _, infos = self._exchange(
            lambda: self._send("reset", env_ids, lambda rows: {"resets": [requests[row] for row in rows]})
        )
        return observations, infos

    def step(self, actions: Any) -> Step:
        """One action in each environment. actions: an array (num_envs,) or, where an action has several fields, a
        dictionary of arrays. Raises RuntimeError, as `reset` does, while what was sent has not been received."""
        return self._exchange(lambda: self.send(actions))

    def send(self, actions: Any, env_ids: Sequence[int] | None = None) -> None:
        """Step those environments, all without env_ids, and do not wait. actions: one for each of them.

        Raises RuntimeError while a session of theirs still has a response to be received.
        """
        numbers = range(self.num_envs) if env_ids is None else np.asarray(env_ids).tolist()
        if env_ids is not None and not (numbers and min(numbers) >= 0 and max(numbers) < self.num_envs):
            raise ValueError(f"env_ids: give numbers from 0 to {self.num_envs - 1}")
        columns = columns_of(actions, self.action_field)
        if env_ids is None and len(self._shards) == 1:
            self._send("step", numbers, lambda rows: {"actions": columns})
        else:
            self._send("step", numbers, lambda rows: {"actions": {k: _taken(v, rows) for k, v in columns.items()}})

    def recv(self) -> Step:
        """The response of the first session that is ready; infos["env_ids"] has its environments.

        Raises RuntimeError before a `send`, and AnswerTimeout when no session responds.
        """
        waiting = [shard for shard in self._shards if shard.pending is not None]
        if not waiting:
            raise RuntimeError("nothing was sent: call send() before recv()")
        part = _first_ready(waiting, self.response_timeout_s).receive(self.response_timeout_s)
        return self._layout.put_together([part], self.num_envs)

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions."""
        while self._shards:
            self._shards.pop().session.disconnect()
        while self.after_close:
            self.after_close.pop()()

    def leave_to_parent(self) -> None:
        """Called in a forked child: the parent stops a server that was started for it."""
        self.after_close.clear()

    def _seeds(self, seed: int | Sequence[int | None] | None, env_ids: Sequence[int]) -> Sequence[int | None]:
        if seed is None:
            return [None] * len(env_ids)
        if isinstance(seed, int | np.integer):
            return [int(seed) + env_id for env_id in env_ids]
        if len(seed) not in (len(env_ids), self.num_envs):
            raise ValueError(f"seed: {len(seed)} seeds for {len(env_ids)} environments")
        seeds = [None if one is None else int(one) for one in seed]
        return seeds if len(seeds) == len(env_ids) else [seeds[env_id] for env_id in env_ids]

    def _send(self, kind: str, env_ids: Sequence[int], data_of: Callable[[Sequence[int]], dict[str, Any]]) -> None:
        """Send each session its share. data_of: the request's data for rows of env_ids."""
        if len(self._shards) == 1:
            shares = [(self._shards[0], env_ids, data_of(range(len(env_ids))))]
        else:
            numbers = np.asarray(env_ids)
            rows_of = {number: np.flatnonzero(self._shard_of[numbers] == number) for number in range(len(self._shards))}
            shares = [
                (self._shards[number], numbers[rows].tolist(), data_of(rows.tolist()))
                for number, rows in rows_of.items()
                if len(rows)
            ]
        if any(shard.pending is not None for shard, _, _ in shares):
            raise RuntimeError("the response to the last request has not been received yet: call recv() first")
        for shard, numbers_sent, data in shares:
            shard.send(kind, numbers_sent, data)

    def _exchange(self, send: Callable[[], None]) -> Step:
        """Send requests and receive the responses; the first error is raised when every session has responded.

        Ctrl-C gives the requests up: late responses are dropped.
        """
        if any(shard.pending for shard in self._shards):
            raise RuntimeError("what was sent has not been received yet: call recv() first")
        with contextlib.ExitStack() as on_error:
            on_error.callback(self._give_up)
            send()
            parts, errors = self._receive_all()
            on_error.pop_all()
        if errors:
            raise errors[0]
        return self._layout.put_together(parts, self.num_envs)

    def _give_up(self) -> None:
        for shard in self._shards:
            shard.pending = None

    def _receive_all(self) -> tuple[list[Part], list[OpenEnvError]]:
        """The responses to all requests, and the errors of sessions that sent none."""
        parts, errors = [], []
        for shard in self._shards:
            if shard.pending is not None:
                try:
                    parts.append(shard.receive(self.response_timeout_s))
                except OpenEnvError as error:
                    errors.append(error)
        return parts, errors


def _first_ready(shards: Sequence[_Shard], timeout_s: float) -> _Shard:
    """The first that has something to receive. Raises AnswerTimeout."""
    for shard in shards:
        if shard.session.has_response or (shard.pending and (shard.pending.data or shard.pending.error)):
            return shard
    poll = select.poll()
    by_fd = {shard.session.fileno(): shard for shard in shards}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    ready = poll.poll(1000 * timeout_s)
    if not ready:
        raise AnswerTimeout(f"no answer of {len(shards)} sessions in {timeout_s:g} s; their answers will be kept")
    return by_fd[ready[0][0]]


def _taken(column: Any, rows: Sequence[int]) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
