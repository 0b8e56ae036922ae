"""The table of `make bench-learning` in the documentation has the figures of the recorded runs."""

from pathlib import Path

from benchmarks.learning.__main__ import CONFIG, RECORDS, markdown
from benchmarks.learning.runs import Run, recorded
from benchmarks.learning.tasks import TASKS

ROOT = Path(__file__).parent.parent


def test_the_documentation_has_the_figures_of_the_recorded_runs() -> None:
    records = ROOT / RECORDS
    keys = [path.stem.rsplit("-", 1) for path in sorted(records.iterdir())]
    runs = [recorded("tiny", name, int(seed), CONFIG, records) for name, seed in keys]

    assert {name for name, _ in keys} <= TASKS.keys()
    assert None not in runs, "a record has another configuration than benchmarks/learning.yaml"
    assert markdown([run for run in runs if run is not None]) in (ROOT / "docs" / "train.md").read_text()


def test_a_run_that_failed_is_a_row_that_has_failed() -> None:
    shown = markdown([Run("reasoning_gym", 0, minutes=0.2, error="ImportError: no extra")], "smollm2")

    assert "| failed | 100.0 % | 2 x before |" in shown
