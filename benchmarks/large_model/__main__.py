"""A model of 1.5 billion random weights on a GPU: `python -m benchmarks.large_model`.

The generator is timed beside transformers' `generate`, with equal prompts and numbers of new tokens, and the trainer
against plain matrix products. Weights are random in the shape of Qwen2.5-1.5B: times do not depend on what they know.
"""

import argparse
import copy
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from benchmarks.report import machine
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import Config, ModelConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.devices import attention_of, choose_algorithms, device_of
from openenv.rl.models.language_model import cast_matrices, copy_of
from openenv.rl.training.trainer import Trainer

PROMPT, REPLY = 200, 64
"""Tokens of a prompt and of a reply."""
SEQUENCE = 512
"""Tokens of a trained sequence. Its second half is sampled."""
GENERATOR_FLOOR = 2.0
"""Tokens a second, as a multiple of those of transformers."""
TRAINER_FLOOR = 0.35
"""Operations a second of a step, as a part of those of a matrix product."""


def made(layers: int, width: int, device: torch.device) -> Any:
    """A model in the shape of Qwen2.5-1.5B, or with fewer layers and a smaller width."""
    heads = max(2, width // 128)
    shape = Qwen2Config(
        vocab_size=151_936,
        hidden_size=width,
        intermediate_size=width * 35 // 6,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2 if heads % 2 == 0 else 1,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    with device:  # on a processor it takes half a minute
        return Qwen2ForCausalLM._from_config(shape, attn_implementation=attention_of(device)).float()


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Seconds of some work, with what it has left to the device."""
    finish = torch.cuda.synchronize if device.type == "cuda" else lambda _device: None
    finish(device)
    began = time.perf_counter()
    work()
    finish(device)
    return time.perf_counter() - began


def generating(model: Any, rows: int, rounds: int) -> dict[str, float]:
    """Tokens a second of both generators, by name. The first call of each is not counted."""
    device = model.device
    ids = torch.randint(100, model.config.vocab_size, (rounds + 1, rows, PROMPT), generator=torch.manual_seed(1))
    player = copy_of(model)
    cast_matrices(player, "bfloat16")
    ours = Generator(player, Chat(word_tokenizer(["a b c"])), max_new_tokens=REPLY, precision="bfloat16")
    settings = GenerationConfig(
        max_new_tokens=REPLY, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0, eos_token_id=None
    )
    theirs = copy.deepcopy(model).bfloat16()

    def write(prompts: torch.Tensor) -> None:
        segments = ours.generate([tuple(row) for row in prompts.tolist()], [random.Random(row) for row in range(rows)])
        assert sum(int(segment.sampled.sum()) for segment in segments) > 0.9 * rows * REPLY

    def generate(prompts: torch.Tensor) -> None:
        with torch.no_grad():
            theirs.generate(input_ids=prompts.to(device), generation_config=settings)

    times: dict[str, list[float]] = {"ours": [], "transformers": []}
    for number, prompts in enumerate(ids):
        for name, work in (("ours", write), ("transformers", generate)):
            taken = seconds(lambda work=work, prompts=prompts: work(prompts), device)
            times[name] += [taken] * (number > 0)
    return {name: rows * REPLY / statistics.median(values) for name, values in times.items()}


def product_rate(device: torch.device, size: int = 8192) -> float:
    """Operations a second of a square matrix product in bfloat16: the best of several."""
    one, other = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    return 2 * size**3 / min(seconds(lambda: one @ other, device) for _ in range(10))


def training(model: Any, config: Config, sequences: int, rounds: int) -> tuple[float, float]:
    """Operations a second of the trainer's step, and its seconds. The first step is not counted.

    A weight costs six operations for each token, those of the output layer for each sampled token alone; a place that a
    token attends to costs twelve for each number of a head. The pass that measures the step is no work of its own.
    """
    trainer = Trainer(model, None, config, pad_id=0)
    shape, steps = model.config, []
    half = SEQUENCE // 2
    for number in range(rounds + 1):
        draw = random.Random(number)
        groups = []
        for index in range(sequences // 8):
            trajectories = []
            for row in range(8):
                ids = tuple(draw.randrange(100, shape.vocab_size) for _ in range(SEQUENCE))
                logprobs = (0.0,) * half + (-11.9,) * half
                segment = Segment(ids, (False,) * half + (True,) * half, logprobs, versions=0)
                trajectories.append(Trajectory(seed=index, segments=[segment], outcome="won", reward=float(row % 2)))
            groups.append(Group(index, trajectories))
        steps.append(seconds(lambda groups=groups: trainer.step(groups, 0.0), model.device))
    output = shape.vocab_size * shape.hidden_size
    inner = sum(weights.numel() for weights in model.parameters()) - output
    attended = 12 * shape.num_hidden_layers * shape.hidden_size * SEQUENCE / 2
    work = sequences * (SEQUENCE * (6 * inner + attended) + half * 6 * output)
    taken = statistics.median(steps[1:])
    return work / taken, taken


def main() -> None:
    """Measure both, print a table, and exit with code 1 if a floor is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_model", description=__doc__)
    parser.add_argument("--rows", type=int, default=128, help="Prompts at a time (default %(default)s).")
    parser.add_argument("--sequences", type=int, default=128, help="Of a step (default %(default)s).")
    parser.add_argument("--rounds", type=int, default=3, help="Measured calls (default %(default)s).")
    parser.add_argument("--tokens", type=int, default=8192, help="`trainer.tokens_per_forward` (default %(default)s).")
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "LAYERS"), default=(1536, 28),
                        help="Of the model (default 1536 28: 1.5 billion).")  # fmt: skip
    parser.add_argument("--device", default="cuda", help="Of the model (default %(default)s).")
    args = parser.parse_args()
    console, device = Console(width=110), device_of(args.device)
    choose_algorithms(device, deterministic=ModelConfig().deterministic)
    model = made(args.size[1], args.size[0], device)
    rates = generating(model, args.rows, args.rounds)
    rate = product_rate(device)
    console.print(f"generated {rates}, product {rate / 1e12:,.0f} TFLOP/s")
    config = config_from_mapping(
        {
            "model": {"path": "Qwen2.5-1.5B", "precision": "bfloat16"},
            "env": {"name": "echo"},
            "trainer": {"tokens_per_forward": args.tokens},
        }
    )
    trained, taken = training(model, config, args.sequences, args.rounds)
    shown = Table(title=f"{sum(w.numel() for w in model.parameters()) / 1e9:.2f} billion random weights, bfloat16")
    for heading in ("what", "ours", "beside it", "ours is", "floor"):
        shown.add_column(heading, justify="left" if heading == "what" else "right")
    ratio, share = rates["ours"] / rates["transformers"], trained / rate
    what = f"tokens/s, {args.rows} prompts of {PROMPT}, {REPLY} new"
    shown.add_row(
        what, f"{rates['ours']:,.0f}", f"{rates['transformers']:,.0f}", f"{ratio:.2f}x", f"{GENERATOR_FLOOR}x"
    )
    what = f"TFLOP/s, a step of {args.sequences} sequences of {SEQUENCE} ({taken:.2f} s)"
    shown.add_row(what, f"{trained / 1e12:,.0f}", f"{rate / 1e12:,.0f}", f"{share:.0%}", f"{TRAINER_FLOOR:.0%}")
    console.print(machine())
    console.print(shown)
    raise SystemExit(ratio < GENERATOR_FLOOR or share < TRAINER_FLOOR)


if __name__ == "__main__":
    main()
