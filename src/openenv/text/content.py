"""What a message shows: a text, or parts of text and images where an observation has images."""

from collections.abc import Hashable, Mapping
from itertools import groupby
from typing import Any

from openenv.formats.images import png_base64

Part = dict[str, Any]
Content = str | list[Part]
"""A text, or parts: `{"type": "text", "text": ...}` and `{"type": "image", "image": data URL, "name": field}`."""


def image_type(schema: Mapping[str, Any]) -> str | None:
    """The media type that a field's JSON Schema declares as `contentMediaType`, if it is one of images."""
    declared = (str(option.get("contentMediaType", "")) for option in (schema, *schema.get("anyOf", ())))
    return next((media_type for media_type in declared if media_type.startswith("image/")), None)


def image_part(name: str, value: Any, media_type: str = "image/png") -> Part:
    """The part that shows an image.

    Args:
        name: the observation's field.
        media_type: of a value that is base64.
        value: an image file, as base64 or as a data URL; or pixels, as `png_base64` takes them.

    Raises:
        ValueError: for other pixels.
    """
    if not isinstance(value, str):
        try:
            value, media_type = png_base64(value), "image/png"
        except ValueError as error:
            raise ValueError(f"{name}: {error}. Convert it, or remove the field's contentMediaType.") from error
    url = value if value.startswith("data:") else f"data:{media_type};base64,{value}"
    return {"type": "image", "image": url, "name": name}


def joined(*contents: Content) -> Content:
    """Contents one below the other, without the empty ones."""
    parts: list[Part] = []
    for content in (content for content in contents if content):
        parts += [_text_part("\n")] if parts else []
        parts += _parts(content)
    if not images_of(parts):
        return "".join(part["text"] for part in parts)
    runs = [list(run) for _, run in groupby(parts, key=lambda part: part["type"] == "text")]
    return [part for run in runs for part in (_merged(run) if run[0]["type"] == "text" else run)]


def images_of(content: Content) -> list[Part]:
    """The image parts of a content."""
    return [] if isinstance(content, str) else [part for part in content if part["type"] == "image"]


def text_of(content: Content) -> str:
    """A content as text, with `[image]` in place of each image."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in content)


def frozen(content: Content) -> Hashable:
    """A content that can be the key of a dictionary. A text stays what it is; `thawed` reverses it."""
    return content if isinstance(content, str) else tuple(tuple(part.items()) for part in content)


def thawed(key: Any) -> Content:
    """The content of a key."""
    return key if isinstance(key, str) else [dict(part) for part in key]


def _parts(content: Content) -> list[Part]:
    return [_text_part(content)] if isinstance(content, str) else content


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def _merged(texts: list[Part]) -> list[Part]:
    return [_text_part("".join(part["text"] for part in texts))]
