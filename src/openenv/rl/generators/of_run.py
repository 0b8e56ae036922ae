"""The generators of a run: in this process, or on vLLM servers that the run has started or reaches."""

import asyncio
import logging
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from torch import bfloat16 as bfloat16_type
from torch import dtype, float32
from transformers import PreTrainedModel

from openenv.rl.config import Config, require
from openenv.rl.generators.base import BaseGenerator
from openenv.rl.generators.embedded import Generator
from openenv.rl.generators.probe import EXACT, ROUNDED, Probe
from openenv.rl.generators.vllm_process import LOCALHOST, VllmProcess
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.generators.vllm_weights import Adapters, AllWeights, Delivery
from openenv.rl.models.chat import Chat
from openenv.rl.models.devices import multiplies_bfloat16
from openenv.rl.models.language_model import cast_matrices, copy_of
from openenv.rl.models.lora import adapter_config
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.waiting.server_part import ServerPart
from openenv.rl.waiting.watch import PATIENCE_S

log = logging.getLogger(__name__)

_ADAPTERS = "adapters"  # the folder in that of the run


class RunGenerators:
    """Makes generators for rollouts and evaluations, and ends what they need."""

    def __init__(
        self,
        config: Config,
        chat: Chat,
        model: PreTrainedModel,
        folder: str,
        *,
        servers: Sequence[int] | None = None,
        host: str = LOCALHOST,
    ) -> None:
        """Starts nothing yet.

        Args:
            folder: where the model before GRPO was saved.
            servers: numbers of the vLLM servers that this process starts; None: all of the run.
            host: the address of this machine at which they serve.
        """
        self._config = config
        self._chat = chat
        self._served: list[VllmGenerator] = []
        self.num_recoveries = 0
        """How often vLLM servers that had ended were started again."""
        self._recovering: asyncio.Future[None] | None = None
        self._vocab_size = model.config.get_text_config().vocab_size
        self._is_on_processor = model.device.type == "cpu"
        in_bfloat16 = multiplies_bfloat16(config.model.precision, model.device)
        self._dtype: dtype = bfloat16_type if in_bfloat16 else float32
        own = config.generator.is_vllm and not config.generator.url
        numbers = range(config.generator.replicas) if servers is None else servers
        divided = config.engine.generator_gpus
        share = config.generator.replicas > 1 and not config.generator.gpus and not self._is_on_processor
        rule = "several servers do not fit on the GPU of the run. Name one for each, such as ['1', '2']."
        require(not share, "generator.gpus", config.generator.gpus, rule)
        has_adapter_of_images = config.generator.is_vllm and config.model.lora and chat.image_reader is not None
        rule = "vLLM applies an adapter to the language model alone, not to what reads images. Leave it out."
        require(not has_adapter_of_images, "model.lora", config.model.lora, rule)
        self._processes = [
            VllmProcess(
                config.model.path if config.model.lora else folder,
                python=config.generator.python,
                dtype="bfloat16" if in_bfloat16 else "float32",
                max_length=config.max_req_tokens + config.max_res_tokens,
                on_processor=self._is_on_processor,
                lora_rank=config.model.lora.rank if config.model.lora else None,
                options=[*config.generator.options, *([f"--tensor-parallel-size={divided}"] if divided > 1 else [])],
                gpus=config.generator.gpus[number] if config.generator.gpus else None,
                log_file=config.run_dir / (f"vllm-{number}.log" if number else "vllm.log"),
                host=host,
            )
            for number in (numbers if own else ())
        ]

    @property
    def serve_many(self) -> bool:
        """Whether evaluations, and opponents in self-play, play with a vLLM server beside the rollouts: it holds many
        adapters, and the whole weights of one version."""
        return self._config.generator.is_vllm and self._config.model.lora is not None

    def parts(self) -> list[ServerPart]:
        """The vLLM servers of the run."""
        return [
            ServerPart(f"vLLM server {number}", process.base_url, process, patience_s=PATIENCE_S)
            for number, process in enumerate(self._processes)
        ]

    def start(self) -> None:
        """Start the vLLM servers of the run, if it has any. Raises NotReady or ContainerFault."""
        self._start(self._processes)

    async def recovered(self, known: int) -> bool:
        """As `engines.protocol.Recovering.recovered`: the vLLM servers of the run.

        All that fail meanwhile wait for the same start, which goes on also if they are cancelled.
        """
        if self._recovering is None or self._recovering.done():
            self._recovering = asyncio.ensure_future(self._recover())
            self._recovering.add_done_callback(_retrieved)
        await asyncio.shield(self._recovering)
        return self.num_recoveries > known

    async def _recover(self) -> None:
        if await asyncio.to_thread(self._restart):
            self.num_recoveries += 1

    def _restart(self) -> bool:
        """Start the vLLM servers that have ended again; all receive the weights anew. Returns whether one had."""
        ended = self.stop_ended()
        for generator in self._served if ended else []:
            generator.forget()  # before a server answers with the weights that it begins with
        self._start(ended)
        return bool(ended)

    def stop_ended(self) -> list[VllmProcess]:
        """The vLLM servers that have ended by themselves, with their workers. Their files have their output."""
        ended = [process for process in self._processes if process.has_ended()]
        for process in ended:
            process.stop()
            log.warning("vLLM has ended: %s has its output", process.log_file)
        return ended

    def _start(self, processes: Sequence[VllmProcess]) -> None:
        """Start servers at the same time, and wait for all."""
        if processes:
            with ThreadPoolExecutor(len(processes), "vllm-start") as threads:
                list(threads.map(VllmProcess.start, processes))

    def for_rollouts(self, model: PreTrainedModel, store: WeightStore) -> BaseGenerator:
        """The generator that plays with the weights of a store. model: has the trained weights."""
        if self._config.generator.is_vllm:
            return self.served(model, store)
        return self.embedded(copy_of(model), store)

    def served(self, model: PreTrainedModel, store: WeightStore | None) -> VllmGenerator:
        """A generator on the vLLM server. Without a store it has the weights that the server began with."""
        urls = [process.base_url for process in self._processes] or [self._config.generator.url.rstrip("/")]
        if store is not None and store.probe is None:
            store.probe = self.probe()
        generator = VllmGenerator(
            urls,
            self._chat,
            self._delivery(urls, model),
            max_new_tokens=self._config.max_res_tokens,
            vocab_size=self._vocab_size,
            store=store,
        )
        self._served.append(generator)
        return generator

    def probe(self) -> Probe:
        """What measures whether a vLLM server has the trainer's weights."""
        # other weights round before they are multiplied, and so may a GPU, and a server that runs already
        is_exact = not self._config.generator.url and self._dtype == float32 and self._config.model.weights == "float32"
        is_exact &= self._is_on_processor
        limit = EXACT if is_exact and not any("dtype" in one for one in self._config.generator.options) else ROUNDED
        return Probe(self._vocab_size, self._config.model.precision, limit, image_ids=self._chat.image_ids)

    def served_alone(self, model: PreTrainedModel, publish_to: Callable[[WeightStore], None]) -> VllmGenerator:
        """A generator with all weights of a model. The others deliver theirs again when they are used next.

        publish_to: publishes them to a store.
        """
        for other in self._served:
            other.forget()
        store = WeightStore()
        generator = self.served(model, store)
        publish_to(store)
        return generator

    def embedded(self, model: PreTrainedModel, store: WeightStore | None) -> Generator:
        """A generator in this process. Without a store it keeps the weights of the model, which belongs to it."""
        config = self._config
        cast_matrices(model, config.model.precision)
        return Generator(
            model,
            self._chat,
            max_new_tokens=config.max_res_tokens,
            precision=config.model.precision,
            store=store,
            tokens_at_once=config.sampling.tokens_at_once,
        )

    def close(self) -> None:
        """Take the adapters off a vLLM server, and end those that the run has started."""
        if self._config.generator.url:
            for generator in self._served:
                generator.close()
            return
        for process in self._processes:
            process.close()
        for generator in self._served:
            generator.forget()
        shutil.rmtree(self._config.run_dir / _ADAPTERS, ignore_errors=True)

    def _delivery(self, urls: Sequence[str], model: PreTrainedModel) -> Delivery:
        config = self._config
        if config.model.lora:
            return Adapters(urls, config.model.path, config.run_dir / _ADAPTERS, adapter_config(model))
        interrupts = config.sampling.partial_rollouts
        return AllWeights(urls, self._processes[0].model, self._dtype, interrupts=interrupts)


def _retrieved(start: asyncio.Future[None]) -> None:
    """Those that wait for a start have its error. At the end of a run none waits."""
    if not start.cancelled():
        start.exception()
