"""Whether `torchrun` has started several processes for one run: the first makes it, the others follow it."""

import os


def number_of_processes() -> int:
    """How many processes torchrun has started for this run; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def is_follower() -> bool:
    """Whether this process is one of the others: it calls `engines.followers.follow`, and nothing else."""
    return number_of_processes() > 1 and int(os.environ["RANK"]) > 0
