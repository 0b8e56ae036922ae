"""Images of observations as parts of a message."""

import base64
import io

import numpy as np
import pytest
from PIL import Image as PillowImage
from pydantic import Field

from openenv.core.env_server.types import Action, Observation
from openenv.formats.images import Image, png_base64
from openenv.text.content import frozen, image_part, images_of, joined, text_of, thawed
from openenv.text.derived import DerivedText


class SceneAction(Action):
    move: str


class SceneObservation(Observation):
    depth: float = Field(description="How deep")
    frame: Image
    map: Image | None = None


PIXELS = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)


def pixels_of(part: dict[str, str]) -> np.ndarray:
    header, _, data = part["image"].partition(",")
    assert header == "data:image/png;base64"
    return np.asarray(PillowImage.open(io.BytesIO(base64.b64decode(data))))


def described(observation: Observation) -> object:
    return DerivedText.for_environment(SceneAction, SceneObservation, "", []).describe(observation)


def test_pixels_become_a_png_file_that_a_client_receives_as_text() -> None:
    sent = SceneObservation(depth=1.0, frame=PIXELS)

    received = SceneObservation.model_validate_json(sent.model_dump_json())

    assert received.frame == sent.frame == png_base64(PIXELS)
    assert SceneObservation.model_json_schema()["properties"]["frame"]["contentMediaType"] == "image/png"


def test_images_follow_the_text_of_the_other_fields_by_name() -> None:
    content = described(SceneObservation(depth=2.5, frame=PIXELS, map=PIXELS[..., 0]))

    assert text_of(content) == "depth: 2.5\nframe:\n[image]\nmap:\n[image]"
    first, second = images_of(content)
    assert np.array_equal(pixels_of(first), PIXELS)
    assert np.array_equal(pixels_of(second), PIXELS[..., 0])
    assert (first["name"], second["name"]) == ("frame", "map")


def test_an_image_that_is_absent_is_not_shown() -> None:
    assert text_of(described(SceneObservation(depth=1.0, frame=PIXELS))) == "depth: 1\nframe:\n[image]"


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2), float), np.full((2, 2), 256), np.zeros((0, 2), np.uint8)],
    ids=["four channels", "fractions", "too bright", "empty"],
)
def test_other_arrays_are_refused_with_what_is_wanted(pixels: object) -> None:
    with pytest.raises(ValueError, match=r"frame: an image is an array of whole numbers from 0 to 255 of shape"):
        image_part("frame", pixels)


def test_contents_are_joined_line_by_line_and_can_be_keys() -> None:
    part = image_part("frame", PIXELS)

    content = joined("", "one", [part], "two", "three")

    assert content == [{"type": "text", "text": "one\n"}, part, {"type": "text", "text": "\ntwo\nthree"}]
    assert joined("one", "two") == "one\ntwo"
    assert thawed(frozen(content)) == content
    assert thawed(frozen("text")) == "text"
    assert len({frozen(content), frozen(joined("one", [part], "two", "three"))}) == 1
