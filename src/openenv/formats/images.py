"""Images in messages: a field type that takes pixels and travels as a PNG file in base64."""

import base64
import io
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from openenv.installation import install_line


def png_base64(pixels: Any) -> str:
    """The PNG file of an image, in base64.

    pixels: whole numbers from 0 to 255, [height, width, 3] for red, green and blue, or [height, width] for grey. Raises
    ValueError for anything else, ImportError without numpy and Pillow.
    """
    try:
        import numpy as np  # the extra `images`
        from PIL import Image as PillowImage
    except ImportError as error:
        raise ImportError(f"images need numpy and Pillow: {install_line('images')}") from error
    array = np.asarray(pixels)
    is_image = array.size > 0 and array.dtype.kind in "iu" and (array.ndim == 2 or array.shape[2:] == (3,))
    if not is_image or array.min() < 0 or array.max() > 255:
        raise ValueError(
            "an image is an array of whole numbers from 0 to 255 of shape [height, width, 3] or [height, width], not "
            f"{array.dtype} of shape {list(array.shape)}"
        )
    file = io.BytesIO()
    PillowImage.fromarray(array.astype(np.uint8)).save(file, "PNG", compress_level=1)
    return base64.b64encode(file.getvalue()).decode()


def _as_text(value: Any) -> Any:
    return value if isinstance(value, str) else png_base64(value)


Image = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"type": "string", "contentMediaType": "image/png", "contentEncoding": "base64"}),
]
"""A field of a message that holds an image: assign pixels, or a PNG file in base64, which is what a client receives."""
