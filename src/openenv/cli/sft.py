"""`openenv sft`: supervised training of a model on recorded episodes."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from openenv.auto.resolver import FORMS
from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.evaluation.tables import table_console
from openenv.formats.json_text import json_text
from openenv.integrations.data import load_episodes
from openenv.rl.config import LoraSettings, ModelConfig, WarmStartConfig
from openenv.rl.config_file import require_model

if TYPE_CHECKING:
    from openenv.rl.training.demonstrations import Imitation

EXAMPLE = (
    "Example: `openenv eval openspiel --game tic_tac_toe --policy mcts --episodes 200 --save episodes`, then "
    "`openenv sft episodes/1-mcts.jsonl --model models/smollm2-135m --out models/tic-tac-toe --min-return 1`"
)


def sft(
    files: list[Path] = typer.Argument(
        help="Learn from the episodes of these files: of `openenv eval --save`, or of a server with --record-dir.",
        exists=True,
        dir_okay=False,
    ),
    model: str = typer.Option(metavar="PATH", help="Train this pretrained model: a folder, a GGUF file or a hub id."),
    out: Path = typer.Option(help="Write the trained model to this folder, which must not exist."),
    min_return: float = typer.Option(
        None, help="Learn from episodes with this return or a higher one (default: from all)."
    ),
    steps: int = typer.Option(100, min=1, help="Train on this many batches."),
    batch_size: int = typer.Option(32, min=1, help="Take about this many replies in a batch."),
    lr: float = typer.Option(None, help="Peak learning rate (default 3e-5, with --lora-rank 2e-4)."),
    lora_rank: int = typer.Option(
        None,
        min=1,
        help="Train a LoRA adapter of this rank, which is added to the weights at the end (default: all weights).",
    ),
    max_tokens: int = typer.Option(2048, min=2, help="Leave out what ends after this many tokens."),
    tokens_per_forward: int = typer.Option(
        4096, min=1, help="Run at most this many tokens at a time; fewer take less memory."
    ),
    device: str = typer.Option(
        "auto", help="Train on this device (default auto: CUDA where there is one).", show_default=False
    ),
    seed: int = typer.Option(0, min=0, help="Seed of the batches."),
    env: str = typer.Option(
        None,
        help=f"Replay recordings of sessions on a server of this environment: {FORMS} (default: the recorded one).",
    ),
    text: str = typer.Option(
        None, help="Use this text interface, MODULE:CLASS or FILE.py:CLASS (default: the environment's own)."
    ),
) -> None:
    """Train a model to reply as the policy of recorded episodes, measure the copy, and save it."""
    if out.exists():
        raise typer.BadParameter(f"{out} exists. Give another folder.", param_hint="--out")
    require_model(model)
    settings = WarmStartConfig(
        episodes=[str(file) for file in files], min_return=min_return, steps=steps, batch_size=batch_size, lr=lr
    )
    episodes = load_episodes(files, environment=env, text=text)
    # importing torch takes seconds, so the files are read first
    from openenv.rl.models.lora import merge_adapter
    from openenv.rl.models.sources.hub_id import require_on_hub
    from openenv.rl.starting_model import load_starting_model
    from openenv.rl.training.checkpoint import save_model
    from openenv.rl.training.demonstrations import imitate, recorded_play

    require_on_hub(model)
    lora = None if lora_rank is None else LoraSettings(rank=lora_rank)
    start = load_starting_model(ModelConfig(path=model, device=device, lora=lora), seed)
    chat = start.chat(tools=functions_of(episodes))
    least = -math.inf if min_return is None else min_return
    played = recorded_play(episodes, min_return=least, shows_tools=bool(chat.tools))
    with Progress(console=Console(stderr=True, emoji=False), transient=True) as progress:
        task = progress.add_task("sft", total=steps)
        learned = imitate(
            start.model, [(chat, played)], settings, teacher=", ".join(settings.episodes), precision="auto", seed=seed,
            max_length=max_tokens, tokens_per_forward=tokens_per_forward,
            on_step=lambda done, loss: progress.update(task, completed=done, description=f"sft, loss {loss:.3f}"),
        )  # fmt: skip
    if lora is not None:
        merge_adapter(start.model)
    save_model(out, start.model, chat)
    typer.echo(
        f"{learned.num_episodes} episodes, {learned.num_decisions} replies, mean return {learned.mean_return:+.3f}; "
        f"{learned.num_left_out} episodes left out"
    )
    table_console().print(imitation_table(learned))
    typer.echo(f"model: {out}")


def functions_of(episodes: Sequence[RecordedEpisode]) -> list[dict[str, Any]]:
    """The functions that the policy of the episodes might have called. Raises ValueError if they are not all alike."""
    distinct = {json_text(episode.functions, sort_keys=True) for episode in episodes}
    if len(distinct) > 1:
        raise ValueError(
            "the episodes have different functions to call: learn from those of one environment at a time."
        )
    return episodes[0].functions if episodes else []


def imitation_table(learned: "Imitation") -> Table:
    """What was learned, measured on the replies that were held out."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("on what was held out", "before", "after"):
        table.add_column(heading, justify="left" if heading.startswith("on") else "right")
    table.add_row("loss, nats per token of a reply", f"{learned.loss_before:.3f}", f"{learned.loss_after:.3f}")
    likeliest = (f"{share:.1%}" for share in (learned.likeliest_before, learned.likeliest_after))
    table.add_row("tokens of replies that are the likeliest", *likeliest)
    return table
