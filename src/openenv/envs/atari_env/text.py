"""Text interface of Atari games: the frame for models that see, and a few words from the console's memory for others.

`obs_type` decides. A frame is shown as an image. With `ram` the games of `POSITIONS` are described by where things are,
all others by the bytes of the memory that are not 0.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from openenv.core.env_server.types import Observation
from openenv.text.content import Content, image_part, joined
from openenv.text.derived import DerivedText
from openenv.text.sentences import reply_with_one_of


class Place(NamedTuple):
    """Where the memory has a position, and what must be added to it to get the pixel of the thing's middle."""

    address: int
    offset: int = 0


class GameText(NamedTuple):
    """The rules of a game, and the positions that a player must know, by the words that name them."""

    rules: str
    places: Mapping[str, Place]


POSITIONS: Mapping[str, GameText] = {
    "pong": GameText(
        "Return the ball with your paddle on the right, so that the other side misses it. RIGHT is up, LEFT is down.",
        {"ball x": Place(49, -48), "ball y": Place(54, -13), "you y": Place(51, -6), "other y": Place(50, -8)},
    ),
    "breakout": GameText(
        "Press FIRE to serve. Return the ball with your paddle so that it breaks bricks.",
        {"ball x": Place(99, -48), "ball y": Place(101, 11), "you x": Place(72, -40)},
    ),
    "freeway": GameText("Walk up across the road, around the cars.", {"height": Place(14)}),
}
"""Games whose addresses were compared with the frames: x counts pixels from the left, y from the top."""

_PIXELS = "The numbers are pixels: x from the left, y from the top."
_BYTES = "A message lists the bytes of the console's memory that are not 0, as address: byte."
_ANY_GAME = GameText("Choose actions that earn the most reward.", {})


def positions(observation: Observation) -> dict[str, int]:
    """The positions of a game of POSITIONS, by name. A ball that is out of play has none."""
    places = POSITIONS[str(observation.metadata["game_name"])].places
    memory = vars(observation)["screen"].tolist()
    return {name: memory[place.address] + place.offset for name, place in places.items() if memory[place.address]}


class AtariText(DerivedText):
    """Describes an observation alone, not the ones before. Replies are the names of the actions, such as `UPLEFT`."""

    history = "latest"

    def instructions(self, observation: Observation) -> str:
        """The game, and the replies."""
        name = str(observation.metadata["game_name"])
        rules = POSITIONS.get(name, _ANY_GAME).rules
        if observation.metadata["obs_type"] == "ram":
            rules = f"{rules} {_PIXELS if name in POSITIONS else _BYTES}"
        return f"Play {name.replace('_', ' ')}. {rules} {reply_with_one_of(self.replies(observation))}"

    def describe(self, observation: Observation) -> Content:
        """What `screen` shows, and the lives in games that count them."""
        fields = vars(observation)
        lives = [f"lives {fields['lives']}"] if fields["lives"] else []
        if observation.metadata["obs_type"] != "ram":
            return joined(_sentence(lives), [image_part("screen", fields["screen"])])
        if observation.metadata["game_name"] in POSITIONS:
            seen = [f"{name} {pixel}" for name, pixel in positions(observation).items()]
        else:
            seen = [f"{address}: {byte}" for address, byte in enumerate(fields["screen"].tolist()) if byte]
        return _sentence([*seen, *lives])


def _sentence(facts: Sequence[str]) -> str:
    """Such as `Ball x 80, ball y 90, lives 3.`; empty without facts."""
    text = ", ".join(facts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
