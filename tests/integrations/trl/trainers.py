"""Tiny models, and GRPOTrainers of TRL that train them on this machine's processor."""

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from openenv.integrations.trl import ToolEnvironment
from openenv.rl.models.chat import word_tokenizer

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>")


def words_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words, with padding on the left."""
    tokenizer = word_tokenizer(texts)
    tokenizer.padding_side = "left"
    return tokenizer


def tools_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A byte-pair tokenizer with Qwen3's chat template, which shows tools and calls of them."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        [*texts, qwen3_chat_template] * 2, BpeTrainer(vocab_size=700, show_progress=False, initial_alphabet=alphabet)
    )
    backend.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL])
    backend.add_tokens([AddedToken(token) for token in _MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen3_chat_template,
        padding_side="left",
    )


def tiny_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 of one layer with random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=48,
        num_hidden_layers=1,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config)


def teach(model: Qwen3ForCausalLM, prompt: Sequence[int], replies: Sequence[Sequence[int]], steps: int) -> None:
    """Train the model to reply to one prompt with replies like these."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rng = random.Random(0)
    for _ in range(steps):
        chosen = rng.choices(replies, k=16)
        longest = max(map(len, chosen))
        ids = torch.tensor([[*prompt, *reply, *[0] * (longest - len(reply))] for reply in chosen])
        labels = torch.tensor([[-100] * len(prompt) + [*reply] + [-100] * (longest - len(reply)) for reply in chosen])
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def echo_caller(
    factory: type[ToolEnvironment], prompt: str = "", weights: Sequence[int] = (1,) * 8
) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A model that calls the echo tool after a prompt, with messages of 1 to 8 syllables, and its tokenizer."""
    calls = [
        f"<tool_call>\n{json.dumps({'name': 'echo', 'arguments': {'message': 'ab' * length}})}\n</tool_call><|im_end|>"
        for length in range(1, 9)
    ]
    tokenizer, environment = tools_tokenizer(calls), factory()
    model = tiny_model(tokenizer)
    seen = environment.reset(prompt=[{"role": "user", "content": prompt}])
    shown = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt + seen}], tools=[get_json_schema(environment.echo)],
        add_generation_prompt=True, tokenize=False, enable_thinking=False,
    )  # fmt: skip
    encode = partial(tokenizer.encode, add_special_tokens=False)
    taught = random.Random(0).choices(calls, weights, k=64)
    teach(model, encode(shown), [encode(call) for call in taught], steps=300)
    return model, tokenizer


def trainer(
    model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path, prompts: Sequence[Any] | None, **settings: Any
) -> GRPOTrainer:
    """A trainer of TRL. settings: further arguments of GRPOTrainer; `args` are those of GRPOConfig."""
    defaults: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 64,
        "num_generations": 8,
        "max_completion_length": 8,
        "learning_rate": 3e-3,
        "lr_scheduler_type": "constant",
        "beta": 0.0,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "logging_strategy": "no",
    }
    args = GRPOConfig(**{**defaults, **settings.pop("args", {})})
    data = {} if prompts is None else {"train_dataset": Dataset.from_dict({"prompt": list(prompts)})}
    return GRPOTrainer(model=model, processing_class=tokenizer, args=args, **data, **settings)


def episodes_per_s(made: GRPOTrainer) -> float:
    """How many episodes a trainer has played and trained on in a second."""
    pace: float = made.state.log_history[-1]["train_samples_per_second"]
    return pace


class Recorded:
    """A reward function that keeps what it received."""

    __name__ = "recorded"

    def __init__(self, of: Callable[..., list[float]]) -> None:
        self._of = of
        self.means: list[float] = []
        self.received: list[dict[str, Any]] = []

    def __call__(self, **given: Any) -> list[float]:
        """Called by TRL after each step's episodes."""
        rewards = self._of(**given)
        self.means.append(sum(rewards) / len(rewards))
        self.received.append(given)
        return rewards
