"""LoRA adapters through peft: small trainable matrices beside frozen weights (arXiv:2106.09685)."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from safetensors.torch import load_file, save_file
from torch import Tensor

from openenv.rl.config import LoraSettings
from openenv.rl.models.divided_weights import load_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ADAPTER_FILE = "adapter_model.safetensors"
_SAVED_PREFIX = "base_model.model."  # with which transformers saves adapters, so that peft can load them


def add_adapter(model: "PreTrainedModel", settings: LoraSettings, path: str) -> None:
    """Add an adapter that changes nothing yet, and freeze all other weights. Its own weights are float32.

    path: where the model was loaded from, which the adapter's file names.
    """
    from peft import LoraConfig  # heavy: seconds

    targets: Any = settings.target_modules or "all-linear"
    adapter: Any = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=targets,
        task_type="CAUSAL_LM",
        base_model_name_or_path=path,
    )
    model.add_adapter(adapter)
    for weights in model.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()


def has_adapter(model: "PreTrainedModel") -> bool:
    """Whether the model has an adapter."""
    return any(".lora_" in name for name, _ in model.named_parameters())


def load_adapter(model: "PreTrainedModel", folder: Path) -> None:
    """Load a saved adapter into the one that the model has."""
    saved = load_file(folder / _ADAPTER_FILE)
    names = {_saved_name(name): name for name, _ in model.named_parameters()}
    load_weights(model, {names[name]: weights for name, weights in saved.items()})


def _saved_name(name: str) -> str:
    """The name of a weight in a file: without that of the adapter."""
    return _SAVED_PREFIX + re.sub(r"\.default(?=\.|$)", "", name)


def save_adapter(folder: Path, weights: Mapping[str, Tensor], adapter_config: Any) -> None:
    """Save an adapter from its weights by name, as peft and vLLM load it. adapter_config: see `adapter_config`."""
    folder.mkdir(parents=True)
    saved = {_saved_name(name): tensor.cpu() for name, tensor in weights.items()}
    save_file(saved, folder / _ADAPTER_FILE)
    adapter_config.save_pretrained(folder)


def adapter_config(model: "PreTrainedModel") -> Any:
    """peft's description of the model's adapter."""
    return cast(Any, model).peft_config["default"]


@contextmanager
def adapter_disabled(model: "PreTrainedModel") -> Iterator[None]:
    """The model as it was before its adapter. Does nothing for a model without one."""
    if not has_adapter(model):
        yield
        return
    model.disable_adapters()
    try:
        yield
    finally:
        model.enable_adapters()


def merge_adapter(model: "PreTrainedModel") -> None:
    """Add the adapter to the weights beside it, and take it away: the model is then one without adapter."""
    from peft.tuners.tuners_utils import BaseTunerLayer  # heavy: seconds

    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            parent, _, own_name = name.rpartition(".")
            setattr(model.get_submodule(parent), own_name, layer.get_base_layer())
    network: Any = model
    network._hf_peft_config_loaded = False
    del network.peft_config
