"""wandb, trackio and TensorBoard receive each step under TRL's names. wandb and TensorBoard are real, and offline."""

import logging
import re
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from openenv.installation import install_line
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping
from openenv.rl.reports.trackers import TrackerFailed, Trackers, require_installed

ROW = {"step": 1, "reward": 0.5, "completions/mean_length": 2.0, "kl": None, "warning": "x", "decisions": {"a": {}}}
TABLE = [{"step": 1, "prompt": "word red", "completion": "red", "reward": 1.0, "advantage": None}]


def config_of(folder: Path, *names: str, **changes: Any) -> Config:
    config = config_from_mapping(
        {"name": "echo", "report_to": list(names), "checkpoint": {"folder": str(folder)}, **changes}
    )
    config.run_dir.mkdir(parents=True)
    return config


def record(config: Config, *steps: int, first_step: int = 0, reward: float = 0.5) -> None:
    """A run that records these steps, a table and an evaluation."""
    trackers = Trackers.open(config, first_step)
    for step in steps:
        trackers.log_step({**ROW, "step": step, "reward": reward})
    trackers.log_completions(TABLE, steps[-1])
    trackers.log_evaluation("after", {"win_rate": 0.4, "return": float("nan")}, steps[-1])
    trackers.close()


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_has_the_numbers_of_each_step_and_of_evaluations(tmp_path: Path) -> None:
    config = config_of(tmp_path, "tensorboard")

    record(config, 1, 2)

    found = scalars(config.run_dir / "tensorboard")
    assert found.pop("eval/after/win_rate") == [(2, pytest.approx(0.4))]
    assert found == {
        "train/reward": [(1, 0.5), (2, 0.5)],
        "train/completions/mean_length": [(1, 2.0), (2, 2.0)],
    }


def test_the_evaluation_of_a_step_is_beside_those_before_and_after_training(tmp_path: Path) -> None:
    config = config_of(tmp_path, "tensorboard")
    trackers = Trackers.open(config)

    trackers.log_step({"step": 4, "eval/greedy/win_rate": 0.25, "eval/greedy/win_rate_interval": [0.0, 0.5]})
    trackers.close()

    assert scalars(config.run_dir / "tensorboard") == {"eval/greedy/win_rate": [(4, 0.25)]}


def test_a_resumed_run_replaces_the_steps_of_tensorboard_that_it_makes_again(tmp_path: Path) -> None:
    config = config_of(tmp_path, "tensorboard")
    record(config, 1, 2, 3)

    record(config, 3, 4, first_step=2, reward=0.75)

    rewards = scalars(config.run_dir / "tensorboard")["train/reward"]
    assert rewards == [(1, 0.5), (2, 0.5), (3, 0.75), (4, 0.75)]


@pytest.fixture
def wandb_offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield
    wandb.teardown()


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of a file of wandb: a header of 7 bytes, then the log format of LevelDB, in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32_768 - position % 32_768
        if left < 7:  # too short for a header: padding
            position += left
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            found = Record()
            found.ParseFromString(parts)
            parts = b""
            yield found


def history(records: Sequence[Any]) -> list[dict[str, str]]:
    rows = [found.history.item for found in records if found.WhichOneof("record_type") == "history"]
    return [{item.key or "/".join(item.nested_key): item.value_json for item in row} for row in rows]


@pytest.mark.usefixtures("wandb_offline")
def test_wandb_has_the_configuration_the_steps_and_a_table(tmp_path: Path) -> None:
    config = config_of(tmp_path, "wandb", project="games", seed=3)

    record(config, 1, 2)

    wandb.teardown()  # ends wandb's own process, which writes the last block of the file
    (path,) = config.run_dir.glob("wandb/offline-run-*/run-*.wandb")
    records = list(wandb_records(path))
    (run,) = [found.run for found in records if found.WhichOneof("record_type") == "run"]
    settings = {
        item.key: item.value_json for found in records for item in (*found.run.config.update, *found.config.update)
    }
    rows = history(records)
    assert (run.project, run.display_name) == ("games", "echo")
    assert settings["seed"] == "3"
    assert [row.get("train/reward") for row in rows[:2]] == ["0.5", "0.5"]
    assert [row["train/global_step"] for row in rows] == ["1", "2", "2", "2"]
    assert rows[2]["completions/_type"] == '"table-file"'
    assert rows[3]["eval/after/win_rate"] == "0.4"
    assert not any(key.endswith(("kl", "warning", "decisions", "return")) for row in rows for key in row)


@pytest.mark.usefixtures("wandb_offline")
def test_a_resumed_run_is_the_same_run_in_wandb_and_a_new_one_another(tmp_path: Path) -> None:
    config, other = config_of(tmp_path / "a", "wandb"), config_of(tmp_path / "b", "wandb")
    record(config, 1)
    record(config, 2, first_step=1)
    record(other, 1)

    ids = {path.name for path in config.run_dir.glob("wandb/offline-run-*/run-*.wandb")}
    others = {path.name for path in other.run_dir.glob("wandb/offline-run-*/run-*.wandb")}
    assert len(ids) == len(others) == 1
    assert ids != others


class TrackioStandIn(ModuleType):
    """The calls of trackio 0.43 that a run makes. The library itself needs an older Pillow than the tests run with."""

    class Table:
        def __init__(self, columns: list[str] | None = None, data: list[list[Any]] | None = None) -> None:
            assert columns is not None
            assert data is not None
            self.rows = [dict(zip(columns, row, strict=True)) for row in data]

    def __init__(self) -> None:
        super().__init__("trackio")
        self.__spec__ = ModuleSpec("trackio", None, origin="stand-in")
        self.runs: dict[tuple[str, str], list[tuple[Any, int | None]]] = {}
        self.configs: list[dict[str, Any]] = []
        self.num_finished = 0

    def init(
        self, project: str, name: str | None = None, config: Any = None, resume: str = "never", embed: bool = True
    ) -> "TrackioStandIn":
        assert (resume, embed) == ("allow", False)
        assert name is not None
        self.configs.append(config)
        self._rows = self.runs.setdefault((project, name), [])
        return self

    def log(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self._rows.append((metrics, step))

    def finish(self) -> None:
        self.num_finished += 1


def test_trackio_has_the_steps_and_a_table_and_a_resumed_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trackio = TrackioStandIn()
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    config = config_of(tmp_path, "trackio", project="games")

    record(config, 1)
    record(config, 2, first_step=1)

    (((project, name), rows),) = trackio.runs.items()
    assert project == "games"
    assert name.startswith("echo-")
    assert [(values["train/reward"], step) for values, step in rows if "train/reward" in values] == [(0.5, 1), (0.5, 2)]
    assert [values["completions"].rows for values, _ in rows if "completions" in values] == [TABLE, TABLE]
    assert [settings["name"] for settings in trackio.configs] == ["echo", "echo"]
    assert trackio.num_finished == 2


def test_a_tracker_that_is_not_installed_is_an_error_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    require_installed(["wandb", "tensorboard"])
    monkeypatch.setitem(sys.modules, "wandb", None)

    with pytest.raises(ImportError, match=re.escape(f"report_to: wandb is not installed: {install_line('wandb')}")):
        require_installed(["tensorboard", "wandb"])


def test_a_folder_with_the_name_of_a_tracker_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)

    with pytest.raises(ImportError, match="wandb is not installed"):
        require_installed(["wandb"])


def test_a_tracker_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    config = config_of(tmp_path, "tensorboard")
    (config.run_dir / "tensorboard").write_text("a file where the folder belongs")

    with pytest.raises(TrackerFailed, match=r"report_to: tensorboard could not start: .*File exists"):
        Trackers.open(config)


class UnreachableTracker:
    """A tracker whose service is gone."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        raise ConnectionError("the network is down")

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        raise ConnectionError("the network is down")

    def close(self) -> None:
        raise ConnectionError("the network is down")


class RecordingTracker:
    """A tracker that keeps what it received."""

    def __init__(self) -> None:
        self.received: list[tuple[Mapping[str, float], int]] = []

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.received.append((values, step))

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]], step: int) -> None:
        """Not kept."""

    def close(self) -> None:
        """Nothing to close."""


def test_a_tracker_that_fails_warns_once_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    reached = RecordingTracker()
    trackers = Trackers({"wandb": UnreachableTracker(), "tensorboard": reached})

    with caplog.at_level(logging.WARNING):
        for step in (1, 2):
            trackers.log_step({**ROW, "step": step})
        trackers.close()

    assert [step for _, step in reached.received] == [1, 2]
    assert len(caplog.records) == 1
    assert "report_to: wandb failed, training continues: ConnectionError: the network is down" in caplog.text
