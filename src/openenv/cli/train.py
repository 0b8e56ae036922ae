"""`openenv train`: GRPO on an environment, from one YAML."""
import typer
EXAMPLE="x"
def train() -> None:
    "x"
