"""Loads a tokenizer without its model."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from openenv.rl.models.sources.gguf_file import gguf_source


def load_tokenizer(path: str | Path) -> Any:
    """The tokenizer of a folder, a GGUF file or a hub id."""
    source, options = gguf_source(path)
    return AutoTokenizer.from_pretrained(source, **options)
