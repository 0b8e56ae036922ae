"""A tiny model for the TRL guide, and the server that completes its prompts. Both run in the kernel of its cells."""

import threading
from typing import Any

from openenv.hosting.serving.server import server
from tests.integrations.trl.generate_server import generate_app
from tests.integrations.trl.trainers import tiny_model, words_tokenizer

WORDS = "You are an AI that interacts with *Echo* environment. Word to echo: a bb ccc dddd eeeee"


def save_model(folder: str) -> None:
    """Save a model that writes these words at random, in the format of the Hub."""
    tokenizer = words_tokenizer([WORDS])
    tiny_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def serve_generate(namespace: dict[str, Any], port: int) -> None:
    """Serve `/generate/` with the weights that the cells' `trainer` has at each request, as long as the kernel runs.

    `trl vllm-serve` receives new weights from the trainer of TRL before each rollout.
    """
    app = generate_app(lambda: namespace["trainer"].model, words_tokenizer([WORDS]))
    threading.Thread(target=server(app, "127.0.0.1", port, log_level="error").run, daemon=True).start()
