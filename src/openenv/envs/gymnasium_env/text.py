"""Text interface of Gymnasium environments: short prompts for the classics, the bare observation for all others.

Real numbers of the classics are written as whole numbers of a unit: `angle -3` is an angle of about -3 times the
unit. A word-level model can then read them. The instructions state the units.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from openenv.core.env_server.types import Observation
from openenv.envs.space_text import SpaceText, is_image, with_pixels, without_arrays
from openenv.text.content import Content, image_part
from openenv.text.description import value_text
from openenv.text.sentences import legal_replies

_LARGEST_BIN = 15


class Binned(NamedTuple):
    """A real number and the width of its bins."""

    name: str
    width: float


class EnvText(NamedTuple):
    """The prompts of one environment."""

    rules: str
    """The goal, in a sentence or two."""
    describe: Callable[[Any, Mapping[str, Any]], str]
    """Maps the value and the metadata of an observation to a few words."""


class GymnasiumText(SpaceText):
    """Describes any Gymnasium environment from the observation alone."""

    history = "latest"

    def instructions(self, observation: Observation) -> str:
        """The rules, and how to write a reply."""
        return f"{_env_text(observation).rules} {self.reply_instructions(observation)}"

    def describe(self, observation: Observation) -> Content:
        """What is observed. Legal actions follow where they change from step to step, then the rendered frame."""
        value, pixels = _value(observation), vars(observation).get("pixels")
        if is_image(value):
            return with_pixels([image_part("value", value)], pixels)
        seen = _env_text(observation).describe(without_arrays(value), observation.metadata)
        if "action_mask" in observation.metadata.get("info", ()):
            seen = f"{seen} {legal_replies(self.replies(observation))}"
        return with_pixels(seen, pixels)

    def situation(self, observation: Observation) -> str | None:
        """`hard 16` or `soft 18` in Blackjack, else None."""
        return _hand(_value(observation)) if _name(observation) == "Blackjack" else None


def _value(observation: Observation) -> Any:
    return vars(observation)["value"]


def _name(observation: Observation) -> str:
    """The id without its version."""
    return str(observation.metadata["env_id"]).rpartition("-v")[0]


def _env_text(observation: Observation) -> EnvText:
    return ENV_TEXTS.get(_name(observation), ANY_ENV)


def _cell(value: int, columns: int) -> str:
    row, column = divmod(value, columns)
    return f"row {row}, column {column}"


def _describe_lake(value: int, metadata: Mapping[str, Any]) -> str:
    options = metadata.get("env_options", {})
    is_small = metadata["env_id"].startswith("FrozenLake-") and options.get("map_name", "4x4") == "4x4"
    return f"You are in {_cell(value, len(options['desc'][0]) if 'desc' in options else 4 if is_small else 8)}."


def _describe_cliff(value: int, metadata: Mapping[str, Any]) -> str:
    return f"You are in {_cell(value, CLIFF_COLUMNS)}."


def _describe_taxi(value: int, metadata: Mapping[str, Any]) -> str:
    rest, destination = divmod(value, 4)
    place, passenger = divmod(rest, 5)
    return f"Taxi in {_cell(place, 5)}. Passenger {TAXI_PLACES[passenger]}, destination {TAXI_PLACES[destination]}."


def _hand(value: Sequence[int]) -> str:
    total, _, has_soft_ace = value
    return f"{'soft' if has_soft_ace else 'hard'} {total}"


def _describe_blackjack(value: Sequence[int], metadata: Mapping[str, Any]) -> str:
    return f"You have {_hand(value)}. The dealer shows {value[1]}."


def _describe_any(value: Any, metadata: Mapping[str, Any]) -> str:
    return value_text(value)


def _binned(rules: str, *numbers: Binned, read: Callable[[Any], Sequence[float]] = lambda value: value) -> EnvText:
    """Prompts of an environment of real numbers. read: the numbers of an observation."""
    units = ", ".join(f"{number.name} {number.width:g}" for number in numbers)

    def describe(value: Any, metadata: Mapping[str, Any]) -> str:
        seen = ", ".join(
            f"{number.name} {max(-_LARGEST_BIN, min(_LARGEST_BIN, round(x / number.width)))}"
            for number, x in zip(numbers, read(value), strict=True)
        )
        return f"{seen[0].upper()}{seen[1:]}."

    return EnvText(rules=f"{rules} The numbers are multiples of these units: {units}.", describe=describe)


def _pendulum_numbers(value: Sequence[float]) -> tuple[float, float]:
    cosine, sine, speed = value
    return math.atan2(sine, cosine), speed


def _acrobot_numbers(value: Sequence[float]) -> tuple[float, ...]:
    cosine, sine, cosine2, sine2, *speeds = value
    return math.atan2(sine, cosine), math.atan2(sine2, cosine2), *speeds


CLIFF_COLUMNS = 12
TAXI_PLACES = ("red", "green", "yellow", "blue", "aboard")

ANY_ENV = EnvText("Choose actions that earn the most reward.", _describe_any)
_FROM_0 = "Rows and columns count from 0 at the top left."
LAKE = EnvText(
    "Cross the frozen lake from the top left to the bottom right without falling into a hole; the holes are not "
    f"shown. {_FROM_0}",
    _describe_lake,
)
CLIFF = EnvText(
    f"Walk from the bottom left to the bottom right, around the cliff between them. {_FROM_0}", _describe_cliff
)
CAR_RULES = "Swing the car up the hill on the right: from the valley at position -5 to the top at 5."
CAR_NUMBERS = (Binned("position", 0.1), Binned("speed", 0.005))

ENV_TEXTS: dict[str, EnvText] = {
    "FrozenLake": LAKE,
    "FrozenLake8x8": LAKE,
    "CliffWalking": CLIFF,
    "CliffWalkingSlippery": CLIFF,
    "Taxi": EnvText(
        "Drive the taxi to the passenger, pick up, drive to the destination, drop off. Red is row 0, column 0; green "
        f"row 0, column 4; yellow row 4, column 0; blue row 4, column 3. {_FROM_0}",
        _describe_taxi,
    ),
    "Blackjack": EnvText(
        "Blackjack: come closer to 21 than the dealer without going over. A soft total counts an ace as 11. The "
        "dealer's ace is 1.",
        _describe_blackjack,
    ),
    "CartPole": _binned(
        "Keep the pole upright and the cart near the middle. Positive is to the right.",
        Binned("position", 0.4), Binned("speed", 0.3), Binned("angle", 0.02), Binned("spin", 0.3),
    ),
    "MountainCar": _binned(CAR_RULES, *CAR_NUMBERS),
    "MountainCarContinuous": _binned(CAR_RULES, *CAR_NUMBERS),
    "Acrobot": _binned(
        "Swing the lower end of two links above the line. At angle 0 a link hangs down.",
        Binned("upper", 0.2), Binned("lower", 0.2), Binned("spin", 0.5), Binned("lower spin", 1.0),
        read=_acrobot_numbers,
    ),
    "Pendulum": _binned(
        "Hold the pendulum upright, which is angle 0.",
        Binned("angle", 0.3), Binned("spin", 0.6),
        read=_pendulum_numbers,
    ),
    "LunarLander": _binned(
        "Land softly between the flags, at x 0 and y 0.",
        Binned("x", 0.1), Binned("y", 0.1), Binned("speed x", 0.1), Binned("speed y", 0.1), Binned("angle", 0.1),
        Binned("spin", 0.2), Binned("left leg", 1.0), Binned("right leg", 1.0),
    ),
}  # fmt: skip
"""By the id without its version."""
