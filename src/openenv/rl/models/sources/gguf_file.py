"""Loads a model from a GGUF file, the format of llama.cpp, as a plain model of transformers with whole weights."""

import importlib.util
from pathlib import Path
from typing import Any

from openenv.rl.config import ConfigError

SUFFIX = ".gguf"


def is_gguf(path: str | Path) -> bool:
    """Whether a path names a GGUF file."""
    return str(path).lower().endswith(SUFFIX)


def gguf_source(path: str | Path) -> tuple[str, dict[str, Any]]:
    """What `from_pretrained` of transformers takes to read a model: its folder or hub id, and for a GGUF file its name
    there."""
    return (str(Path(path).parent), {"gguf_file": Path(path).name}) if is_gguf(path) else (str(path), {})


def load_gguf(path: str | Path, *, dtype: Any, attention: str | None) -> tuple[Any, Any]:
    """The model and the tokenizer of a GGUF file. Quantized weights are converted to `dtype`.

    transformers marks a model from GGUF as quantized and then refuses to save it. Its weights are whole after loading,
    so they are copied into a model of the same configuration without that mark.

    Raises OSError if there is no such file, ConfigError if the package `gguf` is missing.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer  # slow: not for a path alone

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"model.path={str(path)!r}: there is no such file.")
    if importlib.util.find_spec("gguf") is None:
        raise ConfigError(f"model.path={str(path)!r}: GGUF files need the package gguf. Run `pip install gguf`.")
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    read: Any = AutoModelForCausalLM.from_pretrained(**source, dtype=dtype)
    settings = {key: value for key, value in read.config.to_dict().items() if key != "quantization_config"}
    config = AutoConfig.for_model(**settings)
    model: Any = type(read)._from_config(config, dtype=dtype, attn_implementation=attention)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.generation_config = read.generation_config
    return model, tokenizer
