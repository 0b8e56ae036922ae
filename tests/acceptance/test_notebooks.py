"""The notebooks run from top to bottom, and their models learn."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from openenv.rl.reports.results import load_results
from tests.integrations_table import Record

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

NOTEBOOKS = Path(__file__).parents[2] / "examples/notebooks"


def executed(name: str, folder: Path) -> str:
    """Run a notebook in a folder; return all that it has printed. Raises CellExecutionError for a cell that fails."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text") or str(output.get("data", {}).get("text/plain", "")) for output in outputs)


@pytest.mark.integration("notebooks", "train a model in any environment", package="nbclient")
def test_a_model_is_trained_in_three_environments(tmp_path: Path, record_property: Record) -> None:
    executed("train_any_environment.ipynb", tmp_path)

    for name in ("blackjack", "tic_tac_toe", "guess"):
        players = {result.role: result for result in load_results(tmp_path / "runs" / name)}
        before, after = players["before"].win_rate, players["after"].win_rate
        record_property("figure", f"{name} won {before:.0%} to {after:.0%}")
        assert after > before + 0.03, name


@pytest.mark.integration("notebooks", "from zero to your own environment", package="nbclient")
def test_an_environment_is_written_and_played(tmp_path: Path) -> None:
    printed = executed("your_own_environment.ipynb", tmp_path)

    assert "hello 0.5 False" in printed
    assert (tmp_path / "catch.png").stat().st_size > 10_000
    assert "smart" in printed
    assert "halving" in printed
