"""Images as a vision-language model takes them: patches, their grid, and the inputs of a forward pass."""

import base64
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from openenv.text.content import Part

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ARCHITECTURES = frozenset({"qwen2_vl", "qwen2_5_vl"})
"""Types of models whose forward takes images here."""

_CACHE_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class ImageInput:
    """One image. Images are equal if their files are."""

    key: bytes
    """Hash of the file."""
    patches: Tensor = field(compare=False)  # [number of patches, values of a patch], float32
    grid: Tensor = field(compare=False)  # [3] frames, rows and columns of patches
    url: str = field(default="", compare=False, repr=False)
    """The file as a data URL."""


Images = tuple[ImageInput, ...]
"""The images of a sequence of tokens, in their order."""


class ImageReader:
    """Reads the images of messages with a model's own image processor. Recent images are kept, each once.

    Threads may share a reader.
    """

    def __init__(self, processor: Any, image_token: str) -> None:
        """processor: of transformers. image_token: stands for a part of an image in prompts."""
        self.processor = processor
        self.image_token = image_token
        self._known: OrderedDict[bytes, ImageInput] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def read(self, part: Part) -> ImageInput:
        """The image of a message's part. Raises ValueError, with the field's name, if it is no image."""
        url = str(part["image"])
        key = hashlib.blake2b(url.encode(), digest_size=16).digest()
        with self._lock:
            image = self._known.get(key)
            if image is None:
                image = self._known[key] = self._processed(key, url, str(part.get("name", "image")))
                self._num_bytes += _size_of(image)
                while self._num_bytes > _CACHE_BYTES and len(self._known) > 1:
                    self._num_bytes -= _size_of(self._known.popitem(last=False)[1])
            else:
                self._known.move_to_end(key)
        return image

    def num_tokens(self, image: ImageInput) -> int:
        """Number of tokens that stand for the image in a prompt."""
        return int(image.grid.prod()) // int(self.processor.merge_size) ** 2

    def tokens(self, image: ImageInput) -> str:
        """The text that stands for an image in a prompt."""
        return self.image_token * self.num_tokens(image)

    def _processed(self, key: bytes, url: str, name: str) -> ImageInput:
        from PIL import Image  # only for models that read images

        header, _, data = url.partition(",")
        try:
            if not header.startswith("data:image/") or not header.endswith(";base64"):
                raise ValueError(f"{url[:40]!r} is no data URL")
            pixels = Image.open(io.BytesIO(base64.b64decode(data, validate=True))).convert("RGB")
        except (ValueError, OSError) as error:
            raise ValueError(f"{name}: not an image file as base64: {error}") from error
        read = self.processor(images=[pixels], return_tensors="pt")
        return ImageInput(key, read["pixel_values"], read["image_grid_thw"][0], url)


def _size_of(image: ImageInput) -> int:
    return image.patches.nbytes + len(image.url)


def load_image_reader(path: str | Path, config: Any, tokenizer: Any) -> ImageReader | None:
    """The image reader of a saved model; None if images cannot be shown to it. config: the model's, of transformers."""
    if config.model_type not in ARCHITECTURES:
        return None
    from transformers import AutoImageProcessor  # only for models that read images

    image_token = str(tokenizer.convert_ids_to_tokens(config.image_token_id))
    return ImageReader(cast(Any, AutoImageProcessor).from_pretrained(path), image_token)


def without_image_token(model: "PreTrainedModel", logits: Tensor) -> Tensor:
    """The logits, [..., vocabulary], where the model cannot write a token that stands for an image."""
    if model.config.model_type not in ARCHITECTURES:
        return logits
    token = torch.tensor([cast(Any, model.config).image_token_id], device=logits.device)
    return logits.index_fill(-1, token, -1e9)


def image_inputs(
    model: "PreTrainedModel", input_ids: Tensor, images: Sequence[Images], mask: Tensor | None = None
) -> tuple[dict[str, Any], Tensor]:
    """What the model's forward takes for the images of rows, and the offset of later positions in each row.

    Returns the arguments, and [U, 1]: the position of a later token is its index plus this number, since an image takes
    fewer positions than it has tokens (M-RoPE, arXiv:2409.12191).

    Args:
        input_ids: [U, L].
        images: of each row. Each distinct one is encoded once.
        mask: [U, L], 0 for padding on the left.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPooling  # with all models, which rollouts do without

    shown = [image for row in images for image in row]
    distinct = {image: number for number, image in enumerate(dict.fromkeys(shown))}
    device = input_ids.device
    patches = torch.cat([image.patches for image in distinct]).to(device)
    grids = torch.stack([image.grid for image in distinct]).to(device)
    network: Any = model
    encoded = network.get_image_features(patches, grids).pooler_output
    features = BaseModelOutputWithPooling(pooler_output=cast(Any, [encoded[distinct[image]] for image in shown]))
    positions, offsets = network.model.get_rope_index(
        input_ids,
        (input_ids == network.config.image_token_id).int(),
        image_grid_thw=torch.stack([image.grid for image in shown]).to(device),
        attention_mask=mask,
    )
    return {"mm_encoder_outputs": {"image": features}, "position_ids": positions}, offsets
