"""An Atari game as an environment of this package."""

import pickle
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.atari_env.models import AtariAction, AtariObservation, AtariState
from openenv.envs.atari_env.server.choice import AtariChoice, check_action, resolve_choice
from openenv.envs.atari_env.server.emulator import Emulator, EmulatorCopy

if TYPE_CHECKING:
    from openenv.core.env_server.vector_environment import VectorEnvironment

_SEED_BITS = 31
_NO_METADATA: Mapping[str, Any] = {}


class AtariEnvironment(Environment[AtariAction, AtariObservation, AtariState]):
    """Plays any Atari game for one player. The arguments are the defaults of `reset`."""

    execution: Execution = "inline"  # ALE does not let other threads run: a thread would only add its own time

    def __init__(self, **defaults: Any) -> None:
        """defaults: fields of AtariChoice. Raises ValueError, naming the field, for a wrong one."""
        self._default = resolve_choice(defaults, AtariChoice())
        self._emulator: Emulator | None = None
        self._episode_id: str | None = None
        self._metadata: dict[str, Any] = {}
        """Of every observation of the episode."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> AtariObservation:
        """Load a game and return its first frame.

        seed: equal seeds give equal episodes under equal actions. Without one, a random seed is chosen; the metadata
        contains it. Other keywords are fields of AtariChoice, and replace the server's for this episode. Raises
        ValueError for an unknown keyword or a wrong value. The current episode then continues.
        """
        if "vector_options" in kwargs:
            raise ValueError("vector_options: only vector sessions have them. Use `vector(num_envs, options=...)`.")
        choice = resolve_choice(kwargs, self._default)
        if seed is None:
            seed = secrets.randbits(_SEED_BITS)
        self._begin(Emulator(choice, seed), episode_id or str(uuid4()))
        ale = self._started().ale
        modes, difficulties = ale.getAvailableModes(), ale.getAvailableDifficulties()
        return self._observe(
            None, {"seed": seed, "available_modes": list(modes), "available_difficulties": list(difficulties)}
        )

    def step(self, action: AtariAction, timeout_s: float | None = None, **kwargs: Any) -> AtariObservation:
        """Repeat an action for `frameskip` frames. Raises ValueError, listing the legal actions, for any other."""
        emulator = self._started()
        check_action(action.action_id, emulator.action_names)
        return self._observe(emulator.step(action.action_id))

    def vectorized(self, num_envs: int) -> "VectorEnvironment | None":
        """Return ALE's own vector, which steps games in several threads; None where it cannot play the server's choice.

        The server then steps games in turn.
        """
        from openenv.envs.atari_env.server.vector import AtariVector, needs_turns

        if needs_turns(self._default) is not None:
            return None
        self.execution = "thread"  # ALE's vector lets other threads run
        return AtariVector(self._default, num_envs)

    def save_state(self) -> bytes:
        """Return an exact copy of the game, with ALE's random numbers, pickled. Raises ValueError before a reset."""
        emulator = self._started()
        return pickle.dumps((emulator.choice, tuple(emulator.copy()), self._episode_id))

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved game: equal actions give equal futures. The server loads its own snapshots only."""
        choice, copied, episode_id = pickle.loads(snapshot)
        emulator = self._emulator
        if emulator is None or emulator.choice != choice:
            emulator = Emulator(choice, 0)
        emulator.restore(EmulatorCopy(*copied))
        self._begin(emulator, episode_id)

    @property
    def state(self) -> AtariState:
        """The game, how it is played, and the number of steps."""
        emulator = self._emulator
        if emulator is None:
            return AtariState(**vars(self._default))
        return AtariState(episode_id=self._episode_id, step_count=len(emulator.actions), **vars(emulator.choice))

    def _begin(self, emulator: Emulator, episode_id: str) -> None:
        choice = emulator.choice
        self._emulator, self._episode_id = emulator, episode_id
        self._metadata = {"game_name": choice.game_name, "obs_type": choice.obs_type}

    def _started(self) -> Emulator:
        if self._emulator is None:
            raise ValueError("there is no episode yet. Call reset() first.")
        return self._emulator

    def _observe(self, reward: float | None, metadata: Mapping[str, Any] = _NO_METADATA) -> AtariObservation:
        emulator = self._started()
        truncated = emulator.truncated
        done = truncated or emulator.terminated
        names = [] if done else emulator.action_names
        fields = {
            "done": done,
            "reward": reward,
            "metadata": {**self._metadata, "legal_action_names": names, **metadata},
            "screen": emulator.screen(),
            "legal_actions": list(range(len(names))),
            "lives": emulator.ale.lives(),
            "episode_frame_number": emulator.ale.getEpisodeFrameNumber(),
            "truncated": truncated,
        }
        return AtariObservation.construct_unchecked(fields)
