"""Serves a model with vLLM, whose weights a run replaces, and ends with the process that has started it.

`python openenv_vllm.py [OPTION ...]` takes the options of vLLM's server. Its standard input is a pipe whose other end
only the run holds. It imports vLLM alone, because vLLM has an environment of its own.
"""

import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any


class WholeWeights:
    """A method that vLLM adds to its workers (`--worker-extension-cls openenv_vllm.WholeWeights`)."""

    def load_openenv_weights(self, file: str) -> None:
        """Replace the model's weights by those of a file of safetensors."""
        from safetensors.torch import load_file
        from vllm.platforms import current_platform

        worker: Any = self
        worker.reload_weights(weights_iterator=iter(load_file(file).items()))
        model = worker.model_runner.get_model()
        if current_platform.is_cpu() and hasattr(model, "lm_head"):
            # the output layer keeps a packed copy, which reloading leaves as it was where it is tied to the embedding
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)


class WeightVersions:
    """Adds to a completion which weights have sampled its tokens (`--middleware openenv_vllm.WeightVersions`).

    `weight_versions` is a list of the first token and the label of each version.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._spans: ContextVar[list[Any]] = ContextVar("spans")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/v1/completions":
            await self._app(scope, receive, send)
            return
        self._watch(scope["app"].state.engine_client)
        spans: list[Any] = []
        self._spans.set(spans)
        sent: list[Any] = []

        async def hold(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, hold)
        body = b"".join(message.get("body", b"") for message in sent)
        if not spans or not body.endswith(b"}"):  # an error, or a stream
            for message in sent:
                await send(message)
            return
        added = json.dumps({"weight_versions": spans}).encode()  # noqa: TID251  it imports vLLM alone; finite numbers
        body = body[:-1] + b", " + added[1:]
        headers = [(name, value) for name, value in sent[0]["headers"] if name.lower() != b"content-length"]
        await send({**sent[0], "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})

    def _watch(self, engine: Any) -> None:
        """Note the versions of each output. They are complete in the last one."""
        if "generate" in vars(engine):
            return
        generate = engine.generate

        async def noted(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for output in generate(*args, **kwargs):
                spans = self._spans.get(None)
                if spans is not None:
                    spans[:] = [(span.start, span.version) for span in output.outputs[0].weight_versions or []]
                yield output

        engine.generate = noted


def _end_with_the_run() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)  # a server that ends by itself waits for requests


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_run, name="parent-watch", daemon=True).start()
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
