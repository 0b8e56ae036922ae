"""Many environments of one server behind Gymnasium's vector interface."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from openenv.core.connection import Address
from openenv.core.errors import AnswerTimeout, OpenEnvError, error_from_wire
from openenv.core.vector_answers import of_one_shape
from openenv.core.vector_session import VectorSession, ready
from openenv.core.vector_spaces import columns_of, concatenated, one_observation_space, single_action_space

Autoreset = Literal["next_step", "same_step", "disabled"]
Step = tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]

_MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """`num_envs` environments that are stepped together: one request, one answer, one array for each field.

    Example:
        with OpenSpielEnv(base_url=url).vector(256, autoreset="same_step") as envs:
            observations, infos = envs.reset(seed=7)
            observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

    What fails in one environment is its own: `infos["failed"]` is True there, its reward NaN, and `infos["errors"]` has
    the exception by number; the others go on. Arrays are read-only views of the server's answer.

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
        answer_timeout_s: float = 60.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Connect and reset once, to learn what is observed.

        autoreset: when an environment whose episode has ended begins the next: at the step after (Gymnasium's default),
        at once, keeping the last observation in `infos["final_obs"]` and what has no place in it in
        `infos["final_info"]`, or only by `reset`. options: said to every reset, such as a game's name. Raises
        ValueError for numbers that do not fit, ServerUnreachable, and NotSupported when the server holds one
        environment in a session.
        """
        if autoreset not in _MODES:
            raise ValueError(f"autoreset={autoreset!r}: give one of {', '.join(_MODES)}")
        if not 1 <= num_sessions <= num_envs:
            raise ValueError(f"num_sessions={num_sessions}: give 1 to num_envs={num_envs}")
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": _MODES[autoreset]}
        self._timeout_s = answer_timeout_s
        self._options = dict(options or {})
        self.after_close: list[Callable[[], object]] = []
        """Called when the sessions have ended: stops a server that was started for them."""
        self._sessions: list[VectorSession] = []
        self._asked: dict[VectorSession, Sequence[int]] = {}
        """The environments that an answer is still to come for, by session."""
        bounds = [round(number * num_envs / num_sessions) for number in range(num_sessions + 1)]
        self._first = dict[VectorSession, int]()
        try:
            for first, end in itertools.pairwise(bounds):
                query = f"num_envs={end - first}&autoreset={autoreset}"
                session = VectorSession(replace(address, query=query, reads_arrays=True), end - first)
                self._sessions.append(session)
                self._first[session] = first
            self._session_of = np.repeat(np.arange(num_sessions), np.diff(bounds))
            self._column = ""
            self._text_fields: list[str] = []
            observations, infos = self.reset()
            self.single_action_space, self._action_field = single_action_space(infos["action_fields"])
            self.action_space = batch_space(self.single_action_space, num_envs)
            self.single_observation_space, self._column = one_observation_space(observations)
            self.observation_space = batch_space(self.single_observation_space, num_envs)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes. seed: of the first environment, the others count on from it; or one for each.

        options: `reset_mask`, an array (num_envs,) of who is reset, where the rest of the answer then repeats nothing
        (see infos["env_ids"]); all else is said to the environments' own `reset`. infos["seeds"] has what was played.
        """
        self._refuse_while_asked()
        said = {**self._options, **(options or {})}
        mask = said.pop("reset_mask", None)
        env_ids = range(self.num_envs) if mask is None else np.flatnonzero(np.asarray(mask, dtype=np.bool_)).tolist()
        if not env_ids:
            raise ValueError("reset_mask: no environment is to be reset")
        seeds = self._seeds(seed, env_ids)
        requests = [said if one is None else {**said, "seed": one} for one in seeds]
        self._send("reset", env_ids, lambda rows: {"resets": [requests[row] for row in rows]})
        observations, _, _, _, infos = self._receive_all()
        return observations, infos

    def step(self, actions: Any) -> Step:
        """One action in each environment. actions: an array (num_envs,) or, where an action has several fields, a
        dictionary of arrays. Raises RuntimeError, as `reset` does, while what was sent has not been received."""
        self._refuse_while_asked()
        self.send(actions)
        return self._receive_all()

    def send(self, actions: Any, env_ids: Sequence[int] | None = None) -> None:
        """Step those environments, all without env_ids, and do not wait. actions: one for each of them.

        Raises RuntimeError while a session of theirs still has an answer to be received.
        """
        numbers = range(self.num_envs) if env_ids is None else np.asarray(env_ids).tolist()
        if env_ids is not None and not (numbers and min(numbers) >= 0 and max(numbers) < self.num_envs):
            raise ValueError(f"env_ids: give numbers from 0 to {self.num_envs - 1}")
        columns = columns_of(actions, self._action_field)
        if len(numbers) == self.num_envs and len(self._sessions) == 1 and env_ids is None:
            self._send("step", numbers, lambda rows: {"actions": columns})
        else:
            self._send("step", numbers, lambda rows: {"actions": {k: _taken(v, rows) for k, v in columns.items()}})

    def recv(self) -> Step:
        """The answer of whoever is ready first; infos["env_ids"] says which environments it is of.

        Raises RuntimeError when nothing was sent, and AnswerTimeout when nobody answers.
        """
        if not self._asked:
            raise RuntimeError("nothing was sent")
        session = ready(list(self._asked), self._timeout_s)[0]
        env_ids, data = self._receive(session)
        return self._result([(env_ids, data)])

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions."""
        while self._sessions:
            self._sessions.pop().close()
        while self.after_close:
            self.after_close.pop()()

    def _seeds(self, seed: int | Sequence[int | None] | None, env_ids: Sequence[int]) -> Sequence[int | None]:
        if seed is None:
            return [None] * len(env_ids)
        if isinstance(seed, int | np.integer):
            return [int(seed) + env_id for env_id in env_ids]
        if len(seed) not in (len(env_ids), self.num_envs):
            raise ValueError(f"seed: {len(seed)} seeds for {len(env_ids)} environments")
        seeds = [None if one is None else int(one) for one in seed]
        return seeds if len(seeds) == len(env_ids) else [seeds[env_id] for env_id in env_ids]

    def _refuse_while_asked(self) -> None:
        if self._asked:
            raise RuntimeError("what was sent has not been received yet: call recv() first")

    def _send(self, verb: str, env_ids: Sequence[int], data: Any) -> None:
        """data: from rows of env_ids to what their session is told. Nothing is sent while a session has to answer."""
        numbers = np.asarray(env_ids)
        if any(self._sessions[place] in self._asked for place in set(self._session_of[numbers].tolist())):
            raise RuntimeError("the answer to the last request has not been received yet")
        if len(self._sessions) == 1:
            self._ask(self._sessions[0], verb, env_ids, data(range(len(env_ids))))
            return
        for place, session in enumerate(self._sessions):
            rows = np.flatnonzero(self._session_of[numbers] == place)
            if len(rows):
                self._ask(session, verb, numbers[rows].tolist(), data(rows.tolist()))

    def _ask(self, session: VectorSession, verb: str, env_ids: Sequence[int], data: dict[str, Any]) -> None:
        first = self._first[session]
        if list(env_ids) != list(range(first, first + session.num_envs)):
            data = {"env_ids": [env_id - first for env_id in env_ids], **data}
        session.send(verb, data)
        self._asked[session] = env_ids

    def _receive(self, session: VectorSession) -> tuple[Sequence[int], dict[str, Any]]:
        try:
            data = session.receive(self._timeout_s)
        except AnswerTimeout:
            raise
        except BaseException:
            del self._asked[session]
            raise
        return self._asked.pop(session), data

    def _receive_all(self) -> Step:
        """The answers of all that were asked; the first failure is raised when everybody has answered."""
        parts, failures = [], []
        for session in list(self._asked):
            try:
                parts.append(self._receive(session))
            except OpenEnvError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return self._result(parts)

    def _result(self, parts: Sequence[tuple[Sequence[int], dict[str, Any]]]) -> Step:
        if len(parts) > 1:
            answers = of_one_shape([data for _, data in parts])
            parts = [(numbers, answer) for (numbers, _), answer in zip(parts, answers, strict=True)]
        env_ids = [env_id for numbers, _ in parts for env_id in numbers]
        infos: dict[str, Any] = {}
        if env_ids != list(range(self.num_envs)):
            infos["env_ids"] = np.array(env_ids)
        if "text_fields" in parts[0][1]:
            self._text_fields = parts[0][1]["text_fields"]
        columns, others = concatenated([data["observation"] for _, data in parts], self._text_fields)
        infos.update(others)
        _tell_errors(infos, parts)
        self._tell_final(infos, parts)
        if "seeds" in parts[0][1]:
            infos["seeds"] = np.array([seed for _, data in parts for seed in data["seeds"]])
            infos["action_fields"] = parts[0][1]["action_fields"]
        whole = [_whole(name, parts) for name in ("reward", "terminated", "truncated")]
        return self._observation(columns), whole[0], whole[1], whole[2], infos

    def _observation(self, columns: dict[str, Any]) -> Any:
        return columns[self._column] if self._column else columns

    def _tell_final(self, infos: dict[str, Any], parts: Sequence[tuple[Sequence[int], dict[str, Any]]]) -> None:
        """The last observations of episodes whose place a new one has taken, as Gymnasium has them."""
        if not any("final" in data for _, data in parts):
            return
        ended = _joined([_ended(len(numbers), data) for numbers, data in parts])
        last = [data["final"]["observation"] for _, data in parts if "final" in data]
        columns, others = concatenated(last, self._text_fields)
        infos["final_obs"] = FinalObservations(self._observation(columns), ended)
        infos["_final_obs"] = ended
        if others:
            said = {name: iter(values) for name, values in others.items()}
            infos["final_info"] = {
                name: [next(values) if is_last else None for is_last in ended] for name, values in said.items()
            }
            infos["_final_info"] = ended


class FinalObservations(Sequence[Any]):
    """The last observation of each environment whose episode has just ended, None for the others.

    `stacked` has them all, one array for each field, in the order of the environments that ended.
    """

    def __init__(self, stacked: Any, ended: np.ndarray[Any, Any]) -> None:
        self.stacked = stacked
        self._ended = ended

    def __len__(self) -> int:
        return len(self._ended)

    def __getitem__(self, row: Any) -> Any:
        row = range(len(self))[row]
        if not self._ended[row]:
            return None
        place = int(np.count_nonzero(self._ended[:row]))
        if isinstance(self.stacked, dict):
            return {name: column[place] for name, column in self.stacked.items()}
        return self.stacked[place]


def _ended(num_rows: int, data: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    ended = np.zeros(num_rows, dtype=np.bool_)
    ended[data["final"]["rows"] if "final" in data else []] = True
    return ended


def _tell_errors(infos: dict[str, Any], parts: Sequence[tuple[Sequence[int], dict[str, Any]]]) -> None:
    errors, start = {}, 0
    failed = np.zeros(sum(len(numbers) for numbers, _ in parts), dtype=np.bool_)
    for numbers, data in parts:
        for row, said in data.get("errors", {}).items():
            errors[numbers[int(row)]] = error_from_wire(said)
            failed[start + int(row)] = True
        start += len(numbers)
    if errors:
        infos["errors"], infos["failed"] = errors, failed


def _whole(name: str, parts: Sequence[tuple[Sequence[int], dict[str, Any]]]) -> Any:
    return _joined([data[name] for _, data in parts])


def _joined(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _taken(column: Any, rows: Sequence[int]) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
