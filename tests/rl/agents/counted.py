"""An environment of eight replies that writes down the rewards that it gives."""

import os
from pathlib import Path

from openenv import Action, Environment, Observation, State

STEPS = 8


class Reply(Action):
    text: str


class Seen(Observation):
    text: str


class Counted(Environment[Reply, Seen, State]):
    """Reply eight times. Longer words are worth more."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._seed, self._left = seed, STEPS
        self._write("begins")
        return Seen(text=f"episode {seed}")

    def step(self, action, timeout_s=None, **kwargs):
        self._left -= 1
        reward = len(action.text) % 3 / 8
        self._write(str(reward))
        return Seen(text=f"{self._left} to go", reward=reward, done=self._left == 0)

    def _write(self, line):
        with Path(os.environ["COUNTED"]).open("a") as log:
            log.write(f"{self._seed} {line}\n")

    @property
    def state(self):
        return State()
