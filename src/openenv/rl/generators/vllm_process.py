"""Starts vLLM's server for a run."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from openenv.core.errors import ContainerFault, NotReady
from openenv.hosting.server_process import ServerProcess, free_port, wait_until_ready
from openenv.rl import vllm_side

log = logging.getLogger(__name__)

LOCALHOST = "127.0.0.1"
_START_TIMEOUT_S = 600.0
"""vLLM imports, compiles and measures memory first: minutes on a busy machine."""
_ENDING_S = 20.0
_PROBE_TOKENS = 64
_ON_GPU = ["--gpu-memory-utilization", "0.4"]
"""The trainer needs the rest of the memory."""
_ON_PROCESSOR = ["--enforce-eager", "--no-enable-chunked-prefill"]
"""vLLM 0.32 ends there when it reads a prompt with a seed in parts: a generator of the processor has no offset."""
_OWN_CODE = Path(vllm_side.__file__).parent


class VllmProcess:
    """vLLM's server of one model, as a process of this run."""

    def __init__(
        self,
        model: str,
        *,
        python: str,
        dtype: str,
        max_length: int,
        on_processor: bool,
        lora_rank: int | None,
        options: list[str],
        gpus: str | None,
        log_file: Path,
        host: str = LOCALHOST,
    ) -> None:
        """Starts nothing yet.

        Args:
            model: the folder of the weights that it begins with.
            python: the interpreter of an environment that has vLLM; empty: this one.
            dtype: of weights and products, float32 or bfloat16.
            max_length: most tokens of a prompt with its reply.
            on_processor: whether it runs without a GPU.
            lora_rank: of the adapters that it receives; None: it receives all weights.
            options: further ones of vLLM's server.
            gpus: its CUDA_VISIBLE_DEVICES; None: those of this process.
            log_file: what it has written is there when it has ended.
            host: the address of this machine at which it serves: others' programs reach it too, and it asks for no key.
        """
        self.model = model
        self.log_file = log_file
        self.base_url = f"http://{host}:{free_port()}"
        self._command = [
            python or sys.executable, str(_OWN_CODE / "openenv_vllm.py"),
            "--model", model, "--host", host, "--port", self.base_url.rpartition(":")[2],
            "--dtype", dtype, "--max-model-len", str(max(max_length, _PROBE_TOKENS)), "--generation-config", "vllm",
            "--logprobs-mode", "processed_logprobs", "--structured-outputs-config.backend", "guidance",
            "--worker-extension-cls", "openenv_vllm.WholeWeights", "--enable-scale-out",
            *(_ON_PROCESSOR if on_processor else _ON_GPU),
            *(["--enable-lora", "--max-lora-rank", str(lora_rank), "--max-loras", "4"] if lora_rank else []), *options,
        ]  # fmt: skip
        self._env_vars = {
            "PYTHONPATH": str(_OWN_CODE),
            "VLLM_SERVER_DEV_MODE": "1",  # the routes that replace weights
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1"),
            **({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}),
            **({"VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")} if on_processor else {}),
        }
        self._process: ServerProcess | None = None
        self._starting = threading.Lock()
        self._is_closed = False

    def has_ended(self) -> bool:
        """Whether it was started, and does not serve any more. One whose engine has died ends within seconds."""
        if self._process is None:
            return False
        try:
            wait_until_ready(self.base_url, 1.0)
        except NotReady:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_S)
        return not self._process.is_running

    def start(self) -> None:
        """Start it, also again, and wait until it serves.

        Raises NotReady, with its output, and after `close`; ContainerFault without the program.
        """
        self.stop()
        with self._starting:
            if self._is_closed:
                raise NotReady("vLLM is not started again: the run has ended")
            log.info("vLLM starts: %s", " ".join(self._command))
            try:
                process = self._process = ServerProcess(self._command, self.base_url, self._env_vars)
            except ContainerFault as error:
                raise ContainerFault(f"generator.python: {error}") from error
        process.wait_until_healthy(_START_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """Of its process; 0 before it is started."""
        return 0 if self._process is None else self._process.pid

    def kill(self) -> None:
        """End it at once. It counts as one that has ended by itself."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End it for good, also while another thread starts it."""
        with self._starting:
            self._is_closed = True
        self.stop()

    def stop(self) -> None:
        """End it with all its workers. A second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            try:
                self.log_file.parent.mkdir(parents=True, exist_ok=True)
                process.save_output(self.log_file)
            finally:
                process.stop()
