"""`openenv train`: GRPO on an environment, from one YAML."""

EXAMPLE = "x"


def train() -> None:
    "x"
