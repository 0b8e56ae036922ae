"""Recorded episodes as datasets of Hugging Face and as Parquet."""

from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet
import pytest

from openenv.evaluation.episode_files.records import RecordedEpisode, read_episodes, write_episodes
from openenv.integrations.data import export_episodes
from tests.cli.commands import run
from tests.integrations_table import Record

pytestmark = pytest.mark.process


def as_recorded(row: dict[str, Any], episode: RecordedEpisode) -> None:
    """A row that was read back is what was recorded, field by field."""
    expected = episode.model_dump()
    assert {name: row[name] for name in expected} == expected
    assert (row["policy"], row["environment"]) == (episode.source.policy, episode.source.environment)
    assert (row["reset"], row["num_steps"]) == (episode.source.reset, len(episode.steps))


@pytest.mark.integration("data", "episodes of blackjack to datasets and Parquet, and back", package="datasets")
def test_what_datasets_reads_back_equals_what_was_recorded(
    blackjack: list[RecordedEpisode], blackjack_files: list[Path], tmp_path: Path, record_property: Record
) -> None:
    for form, name in (("datasets", "folder"), ("parquet", "file.parquet")):
        done = run("export", *map(str, blackjack_files), "--to", form, "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr

    folder = datasets.load_from_disk(tmp_path / "folder")
    parquet = datasets.Dataset.from_parquet(str(tmp_path / "file.parquet"), cache_dir=str(tmp_path / "cache"))
    record_property("figure", f"{len(folder)} episodes equal")
    assert len(folder) == len(parquet) == len(blackjack) == 60
    for row, other, episode in zip(folder, parquet, blackjack, strict=True):
        as_recorded(row, episode)
        as_recorded(other, episode)
    assert pyarrow.parquet.read_table(tmp_path / "file.parquet").num_rows == 60


def test_calls_and_their_results_read_back_as_recorded(called: list[RecordedEpisode], tmp_path: Path) -> None:
    export_episodes(called, "datasets", tmp_path / "data")

    rows = datasets.load_from_disk(tmp_path / "data")
    assert [len(turns) for turns in rows["turns"]] == [3, 3, 3]
    for row, episode in zip(rows, called, strict=True):
        as_recorded(row, episode)


def test_a_file_of_episodes_reads_back_as_it_was_written(blackjack: list[RecordedEpisode], tmp_path: Path) -> None:
    chart = [episode for episode in blackjack if episode.source.policy == "chart"]
    assert read_episodes(write_episodes(tmp_path / "again.jsonl", chart[0].source, chart)) == chart


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0c"])
@pytest.mark.finding("a line feed alone ends a line")
def test_a_file_of_episodes_may_have_any_separator_in_a_text(
    blackjack: list[RecordedEpisode], tmp_path: Path, separator: str
) -> None:
    episode = blackjack[0].model_copy(update={"reason": f"one{separator}two"})
    path = write_episodes(tmp_path / "separated.jsonl", episode.source, [episode])

    assert read_episodes(path) == [episode]


def test_a_line_that_is_no_episode_is_named(blackjack: list[RecordedEpisode], tmp_path: Path) -> None:
    path = write_episodes(tmp_path / "broken.jsonl", blackjack[0].source, blackjack[:1])
    path.write_text(path.read_text() + '{"episode_id": 3}\n')
    done = run("export", str(path), "--to", "datasets", "--out", str(tmp_path / "data"))

    assert (done.returncode, "broken.jsonl, line 3: episode_id" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--to", "csv"], "form='csv' is unknown. There are: datasets"),
        (["--to", "atif", "--fields", "info_state"], "only minari takes them"),
    ],
)
def test_what_cannot_be_exported_is_an_error_with_the_remedy(
    blackjack_files: list[Path], tmp_path: Path, options: list[str], problem: str
) -> None:
    done = run("export", str(blackjack_files[0]), *options, "--out", str(tmp_path / "data"))
    assert (done.returncode, problem in done.stderr) == (1, True), done.stderr


def test_a_target_that_exists_is_not_overwritten(blackjack: list[RecordedEpisode], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is there already"):
        export_episodes(blackjack, "datasets", tmp_path)
