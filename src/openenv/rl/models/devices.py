"""Where a model computes, with which algorithms, and how precisely."""

import os
from typing import Any, cast

import torch
from torch import Tensor

from openenv.rl.config import ConfigError, Precision


def device_of(name: str) -> torch.device:
    """The device of that name; auto is CUDA where there is one, otherwise the processor.

    Raises ConfigError if there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError) as error:  # torch was built without it, or the machine has none
        reason = str(error).partition("\n")[0]  # CUDA adds lines of advice
        raise ConfigError(f"model.device={name!r}: {reason}. Use auto.") from error


def choose_algorithms(device: torch.device, *, deterministic: bool) -> None:
    """On CUDA, let the whole process add in a fixed order or in any. Call it before the first product.

    deterministic: an operation without such an algorithm raises RuntimeError. With a mere warning PyTorch would also
    take the attention of cuDNN, whose gradients differ from call to call.
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it at its first product
        torch.use_deterministic_algorithms(deterministic)
        cast(Any, torch.utils.deterministic).fill_uninitialized_memory = False  # a kernel for each new tensor


def attention_of(device: torch.device) -> str | None:
    """The attention of a model there, created or loaded: a resumed run loads the model that the run has created.

    In bfloat16 on a processor the backward pass of eager is several times faster than that of sdpa. None: what
    transformers prefers for the model's class.
    """
    return "eager" if device.type == "cpu" else None


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device. A GPU receives it in the order of its work, without a wait."""
    if device.type != "cuda" or tensor.device == device:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def autocast(precision: Precision, device: torch.device, *, keeps_casts: bool = True) -> torch.autocast:
    """The autocast context of every forward pass: generator, trainer and reference compute with the same precision.

    keeps_casts: whether a weight is cast once inside it, or at each use.
    """
    enabled = multiplies_bfloat16(precision, device)
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=keeps_casts)


def _has_bfloat16(device: torch.device) -> bool:
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def multiplies_bfloat16(precision: Precision, device: torch.device) -> bool:
    """Whether forward passes there compute in bfloat16."""
    return precision == "bfloat16" or (precision == "auto" and _has_bfloat16(device))
