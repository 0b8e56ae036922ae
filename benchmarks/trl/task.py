"""What both sides train on, and what each of them returns. Both interpreters import this module."""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

GAME = "blackjack"
MAX_PROMPT_TOKENS = 192
"""More than the longest game needs: a prompt shows the whole episode."""
MAX_REPLY_TOKENS = 3
"""`hit` or `stand`, the end token, and one to spare."""
LOSS_LENGTH = 64
"""Dr. GRPO divides each episode's sum of token losses by this number."""
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
BETA1, BETA2 = 0.9, 0.99
MAX_GRAD_NORM = 1.0
UNPARSEABLE = -1.0
"""The reward of an episode that a reply without a legal action ended: that of a lost game."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """The training that both sides do."""

    server_url: str
    model: str
    """Folder of weights and tokenizer, as transformers loads them."""
    steps: int
    """Optimizer steps."""
    groups: int
    """Groups in a step."""
    group_size: int
    """Episodes from one deal."""
    lr: float
    """Learning rate of every step."""
    seed: int
    """Seed of the deals and of sampling."""
    threads: int | None = None
    """Torch threads. None: the number that the side's library chooses."""
    instructions: bool = False
    """Whether a system message with the rules comes first: for a pretrained model."""
    device: str = "cpu"
    """Device of model and training. Both sides compute in float32 on a processor, elsewhere in bfloat16."""

    @property
    def episodes(self) -> int:
        """Episodes in a step."""
        return self.groups * self.group_size


@dataclass(frozen=True, kw_only=True)
class TrainingLog:
    """What a side has measured of each step."""

    ended_s: list[float] = field(default_factory=list)
    """Seconds from the start of the training to the end of each step."""
    processor_s: list[float] = field(default_factory=list)
    """Processor seconds of the process at the end of each step."""
    rewards: list[float] = field(default_factory=list)
    """Mean reward of the step's episodes."""

    def step_s(self, warm_up: int) -> float:
        """Mean seconds of a step, without the first `warm_up` steps."""
        return _mean_growth(self.ended_s, warm_up)

    def step_processor_s(self, warm_up: int) -> float:
        """Mean processor seconds of a step, without the first `warm_up` steps. The server's are not among them."""
        return _mean_growth(self.processor_s, warm_up)


def _mean_growth(values: list[float], first: int) -> float:
    return (values[-1] - values[first - 1]) / (len(values) - first)


class Stopwatch:
    """Records the end and the mean reward of each step."""

    def __init__(self) -> None:
        self.log = TrainingLog()
        self._began = math.nan

    def start(self) -> None:
        """The training begins."""
        self._began = time.perf_counter()

    def step(self, reward: float) -> None:
        """A step has ended."""
        self.log.ended_s.append(time.perf_counter() - self._began)
        self.log.processor_s.append(time.process_time())
        self.log.rewards.append(reward)


def main(train: Callable[[Task], TrainingLog]) -> None:
    """Train as a side's own process: reads the task from the first argument, and writes the log to the second."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", type=json.loads)
    parser.add_argument("log", type=Path)
    args: Any = parser.parse_args()
    args.log.write_text(json.dumps(asdict(train(Task(**args.task)))))
