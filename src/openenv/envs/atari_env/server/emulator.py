"""One game that is played on the emulator, and its exact copy."""

import re
from typing import Any, NamedTuple

import numpy as np
from ale_py import Action, ALEInterface, ALEState

from openenv.envs.atari_env.server.choice import AtariChoice, rom_path

SEEDS = 1 << 31
"""ALE's seeds are below this number. A larger one is taken modulo it."""
_WORDS_A_FRAME = 2
"""Random words that ALE draws in each frame: for the first player's action, and for the second's."""
_WORD = 1 << 32
_TWISTER = re.compile(rb"((?:\d+ ){624})(\d+)")


class EmulatorCopy(NamedTuple):
    """An exact copy of a game."""

    seed: int
    actions: bytes
    """The number of the action of each step."""
    state: bytes
    """ALE's own copy. It lacks the action of the last frame, which the next frame may repeat."""


class Emulator:
    """A game from its start. Equal seeds give equal games under equal actions, those of Gymnasium's `ALE/` ids too."""

    def __init__(self, choice: AtariChoice, seed: int) -> None:
        """Load the game, which takes 0.1 s."""
        self.choice = choice
        self.seed = seed % SEEDS
        self.actions = bytearray()
        """The number of the action of each step."""
        ale = ALEInterface()
        ale.setFloat("repeat_action_probability", choice.repeat_action_probability)
        ale.setInt("max_num_frames_per_episode", choice.max_frames)
        ale.setInt("random_seed", self.seed)  # read by loadROM
        ale.loadROM(rom_path(choice.game_name))
        if choice.mode is not None:
            ale.setMode(choice.mode)
        if choice.difficulty is not None:
            ale.setDifficulty(choice.difficulty)
        ale.reset_game()
        self.ale = ale
        self._joystick = ale.getLegalActionSet() if choice.full_action_space else ale.getMinimalActionSet()
        self.action_names = [action.name for action in self._joystick]
        """The names of the legal actions, in the order of their numbers."""
        self._read = {"rgb": ale.getScreenRGB, "grayscale": ale.getScreenGrayscale, "ram": ale.getRAM}[choice.obs_type]

    def step(self, action_id: int) -> float:
        """Repeat a legal action for the frames of a step; return the reward."""
        act, action = self.ale.act, self._joystick[action_id]
        self.actions.append(action_id)
        return float(sum([act(action) for _ in range(self.choice.frameskip)]))

    def screen(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The frame or the memory, as a new array."""
        read: np.ndarray[Any, np.dtype[np.uint8]] = self._read()
        return read

    @property
    def terminated(self) -> bool:
        """Whether the game is over."""
        return bool(self.ale.game_over(with_truncation=False))

    @property
    def truncated(self) -> bool:
        """Whether a limit has ended a game that is not over."""
        limit = self.choice.max_steps
        is_cut = self.ale.game_truncated() or (limit is not None and len(self.actions) >= limit)
        return bool(is_cut) and not self.terminated

    def copy(self) -> EmulatorCopy:
        """An exact copy, for `restore`."""
        return EmulatorCopy(self.seed, bytes(self.actions), self.ale.cloneState(include_rng=True).serialize())

    def restore(self, copied: EmulatorCopy) -> None:
        """Continue a copy of a game of the same choice: equal actions give equal futures."""
        state = ALEState(copied.state)
        self.ale.restoreState(state)
        action, num_frames = self._last_action(copied)
        for _ in range(num_frames):  # the emulator remembers the action of the last of them
            self.ale.act(action)
        self.ale.restoreState(state)
        self.seed, self.actions = copied.seed, bytearray(copied.actions)

    def _last_action(self, copied: EmulatorCopy) -> tuple[Action, int]:
        """The action of the last frame, and the frames until ALE takes a new action instead of repeating one.

        A frame repeats the action before if ALE's random number is below the probability.
        """
        probability = float(np.float32(self.choice.repeat_action_probability))
        if probability >= 1:
            return Action.NOOP, 0
        first, frames_played = _first_word(copied, self.choice.frameskip), len(copied.actions) * self.choice.frameskip
        num_frames = 0
        takes_new = np.zeros(0, np.bool_)
        while not takes_new[frames_played:].any():
            num_frames = num_frames * 2 + 1
            words = _words(copied.seed, first + (frames_played + num_frames) * _WORDS_A_FRAME)
            takes_new = words[first::_WORDS_A_FRAME] / _WORD >= probability
        taken = np.flatnonzero(takes_new[:frames_played])
        action = self._joystick[copied.actions[taken[-1] // self.choice.frameskip]] if len(taken) else Action.NOOP
        return action, num_frames


def _first_word(copied: EmulatorCopy, frameskip: int) -> int:
    """How many random words the game's start has drawn: none in most games.

    The copy has the state of the twister as 624 numbers and the place among them.
    """
    numbers, place = _TWISTER.findall(copied.state)[-1]  # the one before is the console's own
    key = np.array(numbers.split(), np.uint32)
    num_words = len(copied.actions) * frameskip * _WORDS_A_FRAME
    first = (int(place) - num_words) % len(key)
    while not (_twister_after(copied.seed, first + num_words) == key).all():
        first += len(key)
    return first


def _words(seed: int, num_words: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The first random words of a game: those of the Mersenne Twister."""
    return np.random.RandomState(seed).randint(0, _WORD, num_words, dtype=np.uint32)


def _twister_after(seed: int, num_words: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The 624 numbers of the twister after so many words."""
    twister = np.random.RandomState(seed)
    twister.randint(0, _WORD, num_words, dtype=np.uint32)
    state: Any = twister.get_state()
    key: np.ndarray[Any, np.dtype[np.uint32]] = state[1]
    return key
