"""Many games of one kind on ALE's own vector, which steps them in several threads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ale_py.vector_env import AtariVectorEnv

from openenv.core.env_server.runner.sync_vector import next_seed
from openenv.core.env_server.vector_environment import VectorBatch, VectorEnvironment
from openenv.core.errors import EnvironmentFault
from openenv.envs.atari_env.server.choice import AtariChoice, check_action, game_facts, resolve_choice
from openenv.envs.atari_env.server.emulator import SEEDS

_FLAGS = ("episodic_life", "life_loss_info", "maxpool", "reward_clipping", "use_fire_reset")
_NUMBERS = {"img_height": (1, 512), "img_width": (1, 512), "noop_max": (0, 1000), "stack_num": (1, 16)}
_STACK = "stack_num"
_Kind = tuple[AtariChoice, tuple[tuple[str, Any], ...]]
"""What all games of a vector share: the choice and the vector's options."""


def needs_turns(choice: AtariChoice) -> str | None:
    """The name of a field that ALE's vector has no place for; None if it can play the choice."""
    if choice.obs_type == "ram":
        return "obs_type"
    return next((name for name in ("mode", "difficulty") if getattr(choice, name) is not None), None)


class AtariVector(VectorEnvironment):
    """Games of one kind. Equal seeds give the episodes that `AtariEnvironment` plays.

    An observation is `screen`, `lives` and `episode_frame_number`. The last observation of an episode has the frame of
    the step before, as ALE's vector returns it. `vector_options` of a reset are the keywords of ALE's AtariVectorEnv
    that prepare frames and rewards; by default nothing is changed.
    """

    def __init__(self, default: AtariChoice, num_envs: int) -> None:
        """default: what is played where a reset does not choose."""
        self._default = default
        self._num_envs = num_envs
        self._kind: _Kind | None = None
        self._envs: AtariVectorEnv | None = None
        self._ended: set[int] = set()
        """Environments whose episode is over for ALE: its next step begins a new one."""
        self._idle: set[int] = set()
        """Environments whose episode is over for the client."""
        self._begun: set[int] = set()
        """Idle environments that ALE's last step has begun anew."""
        self._last: VectorBatch | None = None

    def action_fields(self) -> dict[str, Any]:
        """`action_id` is below the number of actions of the game."""
        return {"action_id": {"n": len(self._action_names)}}

    def observation_fields(self) -> dict[str, Any]:
        """Lives and frames are numbers from 0."""
        return {"lives": {"minimum": 0}, "episode_frame_number": {"minimum": 0}}

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> VectorBatch:
        """Raises ValueError for a wrong keyword, and for games of several kinds."""
        kinds = {self._kind_of(request) for request in requests}
        if len(kinds) > 1 or (len(env_ids) < self._num_envs and self._kind not in (None, *kinds)):
            raise ValueError("one session plays one game in one way: give all environments the same reset keywords")
        (kind,) = kinds
        seeds = {env_id: int(request["seed"]) % SEEDS for env_id, request in zip(env_ids, requests, strict=True)}
        if self._kind != kind:
            self._open(kind)
            seeds = {**dict.fromkeys(range(self._num_envs), next_seed(0)), **seeds}
        return self._reset(env_ids, seeds)

    def autoreset(self, env_ids: Sequence[int]) -> VectorBatch:
        """Random numbers continue. Environments that ALE's last step has begun anew are not reset again."""
        if self._kind is None:
            return self.reset(env_ids, [{"seed": next_seed(0)}] * len(env_ids))
        if self._begun.issuperset(env_ids):
            assert self._last is not None
            self._idle.difference_update(env_ids)
            self._begun.difference_update(env_ids)
            return _rows(self._last, env_ids)
        return self._reset(env_ids, dict.fromkeys(env_ids, -1))

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> VectorBatch:
        """Step all environments whose episode goes on.

        Raises EnvironmentFault, with nothing stepped, for an action that is not legal, and if an episode that goes on
        is left out: ALE's vector steps all at once.
        """
        assert self._envs is not None
        chosen = self._chosen(actions)
        left_out = set(range(self._num_envs)).difference(env_ids)
        if not self._idle.issuperset(left_out):
            raise EnvironmentFault(
                f"env_ids: ALE steps all {self._num_envs} environments of a session at once. Name all of them, or open "
                "the vector with num_sessions above 1."
            )
        everyone = np.zeros(self._num_envs, np.int64)
        everyone[list(env_ids)] = chosen
        batch = self._batch(*self._envs.step(everyone))
        done = np.flatnonzero(batch.done).tolist()
        self._begun = left_out & self._ended
        self._ended = set(done)
        self._idle.update(env_id for env_id in done if env_id not in left_out)
        self._last = batch if left_out else None
        return _rows(batch, env_ids)

    def close(self) -> None:
        """End ALE's threads."""
        self._envs = None

    def _kind_of(self, request: Mapping[str, Any]) -> _Kind:
        keywords = {name: value for name, value in request.items() if name not in ("seed", "episode_id")}
        options = _checked_options(keywords.pop("vector_options", None) or {})
        choice = resolve_choice(keywords, self._default)
        field = needs_turns(choice)
        if field is not None:
            raise ValueError(
                f"{field}={getattr(choice, field)!r}: ALE's vector cannot play it. Start the server with it, "
                "which then steps games in turn, or open a session for each game."
            )
        return choice, tuple(sorted(options.items()))

    def _open(self, kind: _Kind) -> None:
        choice, options = kind
        facts = game_facts(choice.game_name)
        limits = [choice.max_frames]
        if choice.max_steps is not None:
            limits.append(choice.max_steps * choice.frameskip)
        unchanged = {
            "img_height": facts.height,
            "img_width": facts.width,
            "stack_num": 1,
            "noop_max": 0,
            **dict.fromkeys(_FLAGS, False),
        }
        self._envs = AtariVectorEnv(
            choice.game_name,
            self._num_envs,
            max_num_frames_per_episode=min(limits),
            repeat_action_probability=choice.repeat_action_probability,
            full_action_space=choice.full_action_space,
            grayscale=choice.obs_type == "grayscale",
            frameskip=choice.frameskip,
            autoreset_mode="NextStep",
            **{**unchanged, **dict(options)},
        )
        self._kind = kind
        self._action_names = [action.name for action in self._envs.ale.get_action_set()]
        self._is_stack = _STACK in dict(options)
        self._ended, self._idle, self._begun = set(), set(), set()

    def _reset(self, env_ids: Sequence[int], seeds: Mapping[int, int]) -> VectorBatch:
        """seeds: by environment; -1 lets random numbers continue."""
        assert self._envs is not None
        numbers = sorted(seeds)
        observation, infos = self._envs.ale.reset(np.array(numbers), np.array([seeds[number] for number in numbers]))
        for states in (self._ended, self._idle, self._begun):
            states.difference_update(numbers)
        never = np.zeros(self._num_envs, np.bool_)
        return _rows(self._batch(observation, np.full(self._num_envs, np.nan), never, never, infos), env_ids)

    def _chosen(self, actions: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        if actions.keys() != {"action_id"}:
            raise EnvironmentFault(f"actions: expected one column, action_id, got {', '.join(sorted(actions))}")
        chosen = np.asarray(actions["action_id"])
        if chosen.dtype.kind not in "iu" or not ((chosen >= 0) & (chosen < len(self._action_names))).all():
            for action_id in chosen.tolist():
                check_action(action_id, self._action_names)
        return chosen

    def _batch(
        self, screens: Any, reward: Any, terminated: Any, truncated: Any, infos: Mapping[str, Any]
    ) -> VectorBatch:
        observation = {
            "screen": screens if self._is_stack else screens[:, 0],
            "lives": infos["lives"],
            "episode_frame_number": infos["episode_frame_number"],
        }
        return VectorBatch(observation, reward.astype(np.float64), terminated, truncated)


def _rows(batch: VectorBatch, env_ids: Sequence[int]) -> VectorBatch:
    """The rows of these environments, in that order; all of them without a copy."""
    rows = list(env_ids)
    if rows == list(range(len(batch.reward))):
        return batch
    return VectorBatch(batch.rows(rows), batch.reward[rows], batch.terminated[rows], batch.truncated[rows])


def _checked_options(options: Any) -> dict[str, Any]:
    """Raises ValueError, naming the option, for a wrong one."""
    if not isinstance(options, Mapping):
        raise ValueError(f"vector_options={options!r:.200}: expected an object such as {{'stack_num': 4}}.")
    for name, value in options.items():
        if name in _FLAGS:
            if type(value) is not bool:
                raise ValueError(f"vector_options.{name}={value!r:.100}: expected true or false.")
        elif name in _NUMBERS:
            least, most = _NUMBERS[name]
            if type(value) is not int or not least <= value <= most:
                raise ValueError(
                    f"vector_options.{name}={value!r:.100}: expected a whole number from {least} to {most}."
                )
        else:
            raise ValueError(
                f"vector_options.{name:.100} is not known. Known: {', '.join(sorted((*_FLAGS, *_NUMBERS)))}."
            )
    return dict(options)
