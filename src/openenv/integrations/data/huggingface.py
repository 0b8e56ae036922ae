"""Episodes as a dataset of Hugging Face: one row for each episode, with its turns and its conversation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.installation import install_line

if TYPE_CHECKING:
    from datasets import Dataset


def write_dataset(episodes: Sequence[RecordedEpisode], target: Path) -> str:
    """Write a folder that `datasets.load_from_disk` reads."""
    return save(dataset_of(episodes), target)


def write_parquet(episodes: Sequence[RecordedEpisode], target: Path) -> str:
    """Write a file that `Dataset.from_parquet` and other readers of Parquet read."""
    return save_parquet(dataset_of(episodes), target)


def dataset_of(episodes: Sequence[RecordedEpisode]) -> "Dataset":
    """The rows. Observations and actions are JSON columns: they read back as they were recorded."""
    datasets = library()
    json, text, whole, number, flag = (
        datasets.Json(),
        *(datasets.Value(kind) for kind in ("string", "int64", "float64", "bool")),
    )
    features = datasets.Features(
        {
            "episode_id": text,
            "group": text,
            "environment": text,
            "policy": text,
            "model": text,
            "reset": json,
            "seed": whole,
            "outcome": text,
            "reason": text,
            "total_reward": number,
            "success_return": number,
            "num_steps": whole,
            "functions": json,
            "final_observation": json,
            "turns": datasets.List(
                {
                    "observation": json,
                    "shown": json,
                    "continues": flag,
                    "reply": json,
                    "action": json,
                    "reward": number,
                    "done": flag,
                    "truncated": flag,
                    "cut_off": flag,
                    "prompt_tokens": whole,
                    "completion_tokens": whole,
                }
            ),
        }
    )
    return datasets.Dataset.from_list([_row(episode) for episode in episodes], features=features)


def library() -> Any:
    """The package `datasets`. Raises ImportError with the extra that has it."""
    try:
        import datasets
    except ImportError as error:
        raise ImportError(f"a dataset of Hugging Face needs an extra: {install_line('data')}") from error
    return datasets


def rows_dataset(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> "Dataset":
    """A dataset of rows. columns: the kind of each column, `json` or a type of `datasets.Value`."""
    datasets = library()
    kinds = {name: datasets.Json() if kind == "json" else datasets.Value(kind) for name, kind in columns.items()}
    return datasets.Dataset.from_list([dict(row) for row in rows], features=datasets.Features(kinds))


def save(dataset: "Dataset", target: Path) -> str:
    """Write a dataset as a folder; a name that ends in .parquet or .jsonl is a file of that kind."""
    if target.suffix == ".parquet":
        return save_parquet(dataset, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _no_progress_bars():
        if target.suffix == ".jsonl":
            dataset.to_json(target)
        else:
            dataset.save_to_disk(target)
    return f"{len(dataset)} rows in {target}"


def save_parquet(dataset: "Dataset", target: Path) -> str:
    """Write a dataset as a Parquet file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _no_progress_bars():
        dataset.to_parquet(target)
    return f"{len(dataset)} rows in {target}"


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Writing takes a moment; the setting is restored."""
    utils = library().utils
    was_shown = not utils.are_progress_bars_disabled()
    utils.disable_progress_bars()
    try:
        yield
    finally:
        if was_shown:
            utils.enable_progress_bars()


def _row(episode: RecordedEpisode) -> dict[str, Any]:
    source = episode.source
    return {
        **episode.model_dump(exclude={"source"}),
        "environment": source.environment,
        "policy": source.policy,
        "model": source.model,
        "reset": source.reset,
        "num_steps": len(episode.steps),
    }
