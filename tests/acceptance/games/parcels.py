"""An action of two fields, which is a JSON object for a model: sort a parcel by its contents and its weight."""

from random import Random
from typing import Any, Literal

from openenv import Action, Environment, Observation, State

BINS = {"books": "paper", "mugs": "fragile", "lamps": "fragile", "cards": "paper", "coats": "soft", "scarves": "soft"}
CARTS = {"light": 1, "medium": 2, "heavy": 3}


class SortAction(Action):
    bin: Literal["paper", "fragile", "soft"]
    cart: Literal[1, 2, 3]


class ParcelObservation(Observation):
    contents: str
    weight: str


class ParcelEnvironment(Environment[SortAction, ParcelObservation, State]):
    """The right bin earns 0.5, and the right cart another 0.5."""

    def __init__(self) -> None:
        self._state = State()
        self._contents, self._weight = "books", "light"

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ParcelObservation:
        rng = Random(seed)
        self._state = State(episode_id=episode_id)
        self._contents, self._weight = rng.choice(list(BINS)), rng.choice(list(CARTS))
        return self._seen()

    def step(self, action: SortAction, timeout_s: float | None = None, **kwargs: Any) -> ParcelObservation:
        self._state.step_count += 1
        right = (action.bin == BINS[self._contents]) + (action.cart == CARTS[self._weight])
        return self._seen(done=True, reward=right / 2)

    def _seen(self, **fields: Any) -> ParcelObservation:
        return ParcelObservation(contents=self._contents, weight=self._weight, **fields)

    @property
    def state(self) -> State:
        return self._state
