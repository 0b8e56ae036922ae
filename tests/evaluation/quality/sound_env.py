"""A sound little environment, and one broken in each way that a check should find."""

import os
import pickle
import time
import traceback
from random import Random
from typing import Any, ClassVar, Literal

from openenv import create_app, serve
from openenv.core import Action, Environment, Observation, State

LENGTH = 6


class WalkAction(Action):
    """A step to one side, and a note that the environment ignores."""

    move: Literal["left", "right"]
    note: str = ""


class WalkObservation(Observation):
    """Where the walker stands, and where the wind blows to."""

    position: int
    wind: int


class SoundEnvironment(Environment[WalkAction, WalkObservation, State]):
    """A walk in the wind; being right of the start at the end pays."""

    def __init__(self) -> None:
        self._state = State()
        self._rng = Random()
        self._position = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> WalkObservation:
        self._state = State(episode_id=episode_id)
        self._rng = Random(seed)
        self._position = 0
        return self._seen(None)

    def step(self, action: WalkAction, timeout_s: float | None = None) -> WalkObservation:
        self._state.step_count += 1
        self._position += {"left": -1, "right": 1}[action.move]
        return self._seen(float(self._position) if self._state.step_count == LENGTH else 0.0)

    def _seen(self, reward: float | None) -> WalkObservation:
        wind = self._rng.randint(-1, 1)
        self._position += wind
        return WalkObservation(position=self._position, wind=wind, reward=reward, done=self._state.step_count >= LENGTH)

    @property
    def state(self) -> State:
        return self._state

    def save_state(self) -> bytes:
        return pickle.dumps((self._state.model_dump(), self._rng.getstate(), self._position))

    def load_state(self, snapshot: bytes) -> None:
        state, rng_state, self._position = pickle.loads(snapshot)
        self._state = State(**state)
        self._rng.setstate(rng_state)


class NeedsLevel(SoundEnvironment):
    def reset(self, seed=None, episode_id=None, *, level):
        return super().reset(seed, episode_id).model_copy(update={"metadata": {"level": level}})


class RefusesEverything(SoundEnvironment):
    def step(self, action, timeout_s=None):
        raise ValueError("not like this")


class ForgetsItsId(SoundEnvironment):
    def reset(self, seed=None, episode_id=None):
        return super().reset(seed, None)


class CountsNothing(SoundEnvironment):
    @property
    def state(self):
        return State(episode_id=self._state.episode_id)


class RaisesInItsState(SoundEnvironment):
    @property
    def state(self):
        return State(step_count=self.board)


class RaisesInItsStateAtTheEnd(SoundEnvironment):
    """Its episode is longer than those of the other checks."""

    def _seen(self, reward):
        seen = super()._seen(reward)
        seen.done = self._state.step_count == 100
        return seen

    @property
    def state(self):
        if self._state.step_count == 100:
            raise RuntimeError("over")
        return self._state


class HasStateAsAMethod(SoundEnvironment):
    def state(self):
        return self._state


class HasStateAsADict(SoundEnvironment):
    @property
    def state(self):
        return self._state.model_dump()


class SaysSomethingElse(SoundEnvironment):
    def _seen(self, reward):
        seen = super()._seen(reward)
        return WalkObservation.model_construct(**{**dict(seen), "position": f"at {seen.position}"})


class TellsTracebacks(SoundEnvironment):
    def step(self, action, timeout_s=None):
        if len(action.note) > 1000:
            try:
                raise KeyError(action.move)
            except KeyError:
                raise ValueError(traceback.format_exc()) from None
        return super().step(action)


class DrawsUnseeded(SoundEnvironment):
    def reset(self, seed=None, episode_id=None):
        return super().reset(None, episode_id)


class SeedsOnce(SoundEnvironment):
    """Only the first reset of an instance seeds."""

    def reset(self, seed=None, episode_id=None):
        rng, is_first = self._rng, self._state.episode_id is None
        super().reset(seed, episode_id)
        self._rng = self._rng if is_first else rng
        return self._seen(None)


class DrawsAfterANote(SoundEnvironment):
    """The seed decides nothing before a note that random play does not write."""

    def reset(self, seed=None, episode_id=None):
        self._seed = seed
        return super().reset(0, episode_id)

    def step(self, action, timeout_s=None):
        if action.note == "another wind":
            self._rng = Random(self._seed)
        return super().step(action)


class HashesStrings(SoundEnvironment):
    """The hash of a string differs from process to process."""

    def reset(self, seed=None, episode_id=None):
        return super().reset(hash(f"{seed}") & 0xFFFF, episode_id)


class SharesItsPlace(SoundEnvironment):
    """One place for all instances."""

    place: ClassVar[list[int]] = [0]

    @property
    def _position(self):
        return self.place[0]

    @_position.setter
    def _position(self, value):
        self.place[0] = value


class SavesNoRandomNumbers(SoundEnvironment):
    def load_state(self, snapshot):
        rng_state = self._rng.getstate()
        super().load_state(snapshot)
        self._rng.setstate(rng_state)


class LeaksFiles(SoundEnvironment):
    open_files: ClassVar[list[Any]] = []

    def __init__(self):
        super().__init__()
        self.open_files.append(open("/dev/null"))  # noqa: SIM115  never closed: that is the point


class PaysForNothing(SoundEnvironment):
    """`left`, the first of the moves, pays whatever happens."""

    def step(self, action, timeout_s=None):
        seen = super().step(action)
        return seen.model_copy(update={"reward": 1.0 if action.move == "left" else 0.0})


class PaysTheSame(SoundEnvironment):
    def step(self, action, timeout_s=None):
        return super().step(action).model_copy(update={"reward": 1.0})


class NeverEnds(SoundEnvironment):
    def _seen(self, reward):
        return super()._seen(reward).model_copy(update={"done": False})


class Hangs(SoundEnvironment):
    def step(self, action, timeout_s=None):
        time.sleep(3)
        return super().step(action)


class ExitsOnLongNotes(SoundEnvironment):
    """Takes its server with it."""

    def step(self, action, timeout_s=None):
        if len(action.note) > 1000:
            os._exit(3)
        return super().step(action)


class ExitsAfterTheEnd(SoundEnvironment):
    """Takes a step after the end, answers it, and ends its process when the session closes."""

    ALLOWS_STEP_AFTER_DONE = True
    execution = "inline"

    def close(self):
        if self._state.step_count > LENGTH:
            os._exit(3)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    args = parser.parse_args()
    serve(create_app(globals()[os.environ["SOUND_ENV"]]), args.host, args.port)
