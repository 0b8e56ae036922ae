"""The snake environment."""

import json
from collections import deque
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.reset_values import random_state, refuse_other_keywords, require_whole, restored_random
from openenv.envs.snake_env.models import SnakeAction, SnakeObservation, SnakeState
from openenv.envs.snake_env.server.game import Game, beside, turned
from openenv.formats.json_text import json_text

FOOD_REWARD = 1.0
DEATH_REWARD = -1.0
FULL_REWARD = 1.0
"""On top of the food's, for a board that the snake fills."""
SMALLEST, LARGEST = 4, 20
MOST_STEPS = 100_000
_STEPS_A_CELL = 20
_HUNGER_A_CELL = 2


class SnakeEnvironment(Environment[SnakeAction, SnakeObservation, SnakeState]):
    """Eat and grow. Food earns 1, a full board 1 more; death at the wall, in the body or by hunger costs 1."""

    execution = "inline"

    def __init__(self) -> None:
        self._state = SnakeState()
        self._game = Game(SMALLEST, Random(0))

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        size: int = 8,
        max_steps: int | None = None,
        hunger: int | None = None,
        **kwargs: Any,
    ) -> SnakeObservation:
        """Put a snake on a board of size x size cells. Equal seeds put equal food.

        max_steps: None for twenty a cell. hunger: the steps without food after which the snake starves; None for two a
        cell. Raises ValueError for another keyword or value.
        """
        refuse_other_keywords(kwargs, ("size", "max_steps", "hunger"))
        require_whole("size", size, SMALLEST, LARGEST)
        most = _STEPS_A_CELL * size * size if max_steps is None else max_steps
        require_whole("max_steps", most, 1, MOST_STEPS)
        patience = _HUNGER_A_CELL * size * size if hunger is None else hunger
        require_whole("hunger", patience, 1, MOST_STEPS)
        seed = Random().getrandbits(32) if seed is None else seed
        self._game = Game(size, Random(seed))
        self._state = SnakeState(
            episode_id=episode_id or str(uuid4()), size=size, max_steps=most, hunger=patience, seed=seed
        )
        return self._observation(reward=None, metadata={"seed": seed})

    def step(self, action: SnakeAction, timeout_s: float | None = None, **kwargs: Any) -> SnakeObservation:
        """Move the head. Raises ValueError for a step backwards; the snake then stays as it was."""
        game, state = self._game, self._state
        if action.direction not in game.legal():
            legal = ", ".join(game.legal())
            raise ValueError(f"direction={action.direction!r}: the snake cannot go backwards. Choose one of {legal}.")
        met = game.move(action.direction)
        state.step_count += 1
        reward = 0.0
        if met == "food":
            state.score += 1
            reward = FOOD_REWARD
        state.ending = self._ending(met)
        if state.ending == "full":
            reward += FULL_REWARD
        elif state.ending in ("wall", "body", "hunger"):
            reward = DEATH_REWARD
        return self._observation(reward, metadata={"ending": state.ending} if state.ending else {})

    def save_state(self) -> bytes:
        """The snake, its food, the random numbers and the state."""
        game = self._game
        saved = {
            "snake": [list(game.body), game.direction, game.steps_since_food, game.food],
            "rng": random_state(game.rng),
            "state": self._state.model_dump(),
        }
        return json_text(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        saved = json.loads(snapshot)
        self._state = SnakeState(**saved["state"])
        game = Game(self._state.size, Random(0))
        body, game.direction, game.steps_since_food, food = saved["snake"]
        game.body, game.food = deque(map(tuple, body)), tuple(food) if food else None
        game.rng = restored_random(saved["rng"])
        self._game = game

    @property
    def state(self) -> SnakeState:
        """The episode's id, its number of steps, its score and its ending."""
        return self._state

    def _ending(self, met: str) -> str:
        """Why the episode is over after a step, or nothing."""
        game, state = self._game, self._state
        if met in ("wall", "body"):
            return met
        if game.food is None:
            return "full"
        if game.steps_since_food >= state.hunger:
            return "hunger"
        return "steps" if state.step_count >= state.max_steps else ""

    def _observation(self, reward: float | None, metadata: dict[str, Any]) -> SnakeObservation:
        game, state = self._game, self._state
        food_row, food_column = game.food or (None, None)
        left, ahead, right = (game.what_is_at(beside(game.head, turned(game.direction, turn))) for turn in (-1, 0, 1))
        fields = {
            "head_row": game.head[0],
            "head_column": game.head[1],
            "food_row": food_row,
            "food_column": food_column,
            "direction": game.direction,
            "ahead": ahead,
            "left": left,
            "right": right,
            "length": len(game.body),
            "hunger": state.hunger - game.steps_since_food,
            "body": [list(cell) for cell in game.body],
            "board": game.board(),
            "legal_actions": [] if state.ending else game.legal(),
            "done": bool(state.ending),
            "reward": reward,
            "metadata": metadata,
        }
        return SnakeObservation.construct_unchecked(fields)
