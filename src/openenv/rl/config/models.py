"""The model, and the adapter that may be trained in its place."""

from dataclasses import dataclass, field
from typing import Literal

from openenv.rl.config.rules import require

Precision = Literal["auto", "float32", "bfloat16"]
WeightType = Literal["float32", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """A LoRA adapter: small matrices are trained instead of the weights of a loaded model."""

    rank: int = 16
    """Rank of the matrices."""
    alpha: int = 32
    """The adapter's output is multiplied by alpha / rank."""
    target_modules: list[str] = field(default_factory=list)
    """Names of the layers that have an adapter, such as q_proj. Empty: all linear layers but the output layer."""

    def __post_init__(self) -> None:
        require(self.rank >= 1, "model.lora.rank", self.rank, "must be at least 1.")
        require(self.alpha > 0, "model.lora.alpha", self.alpha, "must be above 0.")


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig:
    """What samples the replies."""

    name: Literal["embedded", "vllm"] = "embedded"
    """embedded: a copy of the model in this process. vllm: a vLLM server, which receives the weights after each step:
    the adapter with `model.lora`, otherwise all."""
    url: str = ""
    """URL of a vLLM server with the same model that runs already, such as http://localhost:8000, for `model.lora`.
    Empty: the run starts one."""
    python: str = ""
    """The interpreter of the environment that has vLLM. Empty: that of the run."""
    options: list[str] = field(default_factory=list)
    """Further options of the server that the run starts, such as --max-num-seqs=64."""
    replicas: int = 1
    """Servers that the run starts. Each has all weights, and answers its share of the episodes."""
    gpus: list[str] = field(default_factory=list)
    """CUDA_VISIBLE_DEVICES of each replica: ["1", "2"], or ["0,1"] with --tensor-parallel-size=2. Empty: the run's."""

    def __post_init__(self) -> None:
        require(self.replicas >= 1, "generator.replicas", self.replicas, "must be at least 1.")
        rule = "belongs to a server that the run starts. Leave it or generator.url out."
        for key, default in (("url", ""), ("python", ""), ("options", []), ("replicas", 1), ("gpus", [])):
            value = getattr(self, key)
            is_free = self.name == "vllm" or value == default
            require(is_free, f"generator.{key}", value, "is for generator.name: vllm.")
            require(key == "url" or not self.url or value == default, f"generator.{key}", value, rule)
        rule = f"must have one entry for each of the {self.replicas} replicas."
        require(len(self.gpus) in (0, self.replicas), "generator.gpus", self.gpus, rule)

    @property
    def is_vllm(self) -> bool:
        """Whether vLLM samples the replies."""
        return self.name == "vllm"


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The model that is trained."""

    path: str = ""
    """A folder or hub id that transformers can load. Empty: a tiny Qwen3 model with its own tokenizer."""
    hidden_size: int = 128
    """Width of the tiny model."""
    num_layers: int = 3
    """Depth of the tiny model."""
    num_heads: int = 4
    """Attention heads of the tiny model, of 32 dimensions each; half as many for keys and values."""
    intermediate_size: int = 384
    """Width of the tiny model's feed-forward layers."""
    precision: Precision = "auto"
    """Precision of the matrix products. auto: bfloat16, but float32 on a processor without bfloat16 instructions, where
    it would be much slower."""
    float32_output: bool = False
    """Whether the output layer computes in float32 where the other layers do not, so that generator and trainer agree
    better about rare tokens (MiniMax-M1, arXiv:2506.13585, section 3.2)."""
    weights: WeightType = "float32"
    """Type of a loaded model's weights. bfloat16 takes half the memory, but rounds away small updates: use it with
    `lora`, whose own weights stay in float32."""
    device: str = "auto"
    """The device of model and training, such as cuda:1. auto: CUDA where there is one, otherwise the processor."""
    deterministic: bool = True
    """On CUDA, whether sums are added in a fixed order, so that equal seeds give equal metrics. false is faster, and is
    needed for a model with an operation that PyTorch has no such algorithm for: the error names it."""
    gradient_checkpointing: bool = False
    """Whether the backward pass computes activations again instead of keeping them. Less memory, a third more time."""
    lora: LoraSettings | None = None
    """Train an adapter of a loaded model. The reference model is then the same model without the adapter."""
    enable_thinking: bool | None = None
    """Passed to the chat template as `enable_thinking`, by which some models turn their thinking on or off. None: not
    passed."""
    instructions: bool | None = None
    """Whether a system message with the rules of the game comes first. None: for a loaded model (`path`), which can
    read them, and not for a tiny model, which only pays for their tokens."""

    def __post_init__(self) -> None:
        require(self.num_heads % 2 == 0, "model.num_heads", self.num_heads, "must be even: two heads share a key head.")
        require(
            self.lora is None or bool(self.path),
            "model.lora",
            self.lora,
            "needs model.path: a tiny model is trained whole.",
        )

    @property
    def shows_instructions(self) -> bool:
        """Whether prompts begin with the rules of the game."""
        return bool(self.path) if self.instructions is None else self.instructions
