"""Serves a model with vLLM, whose weights a run replaces, and ends with the process that has started it.

`python openenv_vllm.py [OPTION ...]` takes the options of vLLM's server. Its standard input is a pipe whose other end
only the run holds. It imports vLLM alone, because vLLM has an environment of its own.
"""

import os
import runpy
import signal
import sys
import threading
from typing import Any


class WholeWeights:
    """A method that vLLM adds to its workers (`--worker-extension-cls openenv_vllm.WholeWeights`)."""

    def load_openenv_weights(self, file: str) -> None:
        """Replace the model's weights by those of a file of safetensors."""
        from safetensors.torch import load_file
        from vllm.platforms import current_platform

        worker: Any = self
        worker.reload_weights(weights_iterator=iter(load_file(file).items()))
        if current_platform.is_cpu():
            # the output layer keeps a packed copy, which reloading leaves as it was where it is tied to the embedding
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            for name, layer in worker.model_runner.get_model().named_modules():
                if name.split(".")[-1] == "lm_head":  # that of a model of images is in its language model
                    dispatch_cpu_unquantized_gemm(layer, remove_weight=False)


def _end_with_the_run() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)  # a server that ends by itself waits for requests


def _go_on_in_a_child() -> None:
    """Return in a child. This process ends as it does.

    Ray kills the processes that an actor has started when the actor ends, but not those that they have started: the
    server could not end its workers any more.
    """
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    _go_on_in_a_child()
    threading.Thread(target=_end_with_the_run, name="parent-watch", daemon=True).start()
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)
