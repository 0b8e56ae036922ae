"""The script of examples/trl, which differs from TRL's own in three lines, trains on a processor."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from openenv.integrations.trl import as_environment_factory
from tests.integrations.trl.trainers import echo_caller
from tests.integrations_table import Record

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples/trl/echo.py"
DOCUMENT = (ROOT / "docs/trl.md").read_text(encoding="utf-8")
ON_A_PROCESSOR = """
--use_cpu --bf16 false --gradient_checkpointing false --report_to none --save_strategy no --disable_tqdm true
--max_steps 30 --per_device_train_batch_size 32 --max_completion_length 64 --max_tool_calling_iterations 1
--learning_rate 1e-3 --lr_scheduler_type constant --logging_steps 1 --chat_template_kwargs {"enable_thinking":false}
"""


def test_the_page_shows_the_script() -> None:
    assert f"```python\n{SCRIPT.read_text(encoding='utf-8')}```" in DOCUMENT


def test_the_page_shows_three_changed_lines_which_the_script_has() -> None:
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    added = [line.removeprefix("+").strip() for line in diff.splitlines() if line.startswith("+")]
    script = SCRIPT.read_text(encoding="utf-8")
    numbered = re.findall(r"^ *(.*?)  # \d: ", script, re.MULTILINE)

    assert len(added) == len(numbered) == 3
    assert added[0] == numbered[0]
    assert [line.split("=")[0] for line in added[1:]] == ["default", "environment_factory"]


@pytest.mark.integration("TRL", "the script of examples/trl, three lines from TRL's own", package="trl")
def test_the_script_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record) -> None:
    script = runpy.run_path(str(SCRIPT))
    factory = as_environment_factory("echo")
    for part in echo_caller(factory, script["PROMPT"], weights=range(8, 0, -1)):
        part.save_pretrained(tmp_path / "model")
    factory.stop_server()
    trained = tmp_path / "trained"
    options = ["--model", str(tmp_path / "model"), "--output_dir", str(trained), *ON_A_PROCESSOR.split()]
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, *options])
    rewards: list[float] = []
    reward_func = script["reward_func"]

    def recorded(**given: object) -> list[float]:
        found = reward_func(**given)
        rewards.append(sum(found) / len(found))
        return found

    monkeypatch.setitem(script["main"].__globals__, "reward_func", recorded)
    script["main"]()

    first, last = (sum(part) / 5 for part in (rewards[:5], rewards[-5:]))
    record_property("figure", f"reward {first:.2f} to {last:.2f}")
    assert last > 1.25 * first
    assert (trained / "model.safetensors").exists()
