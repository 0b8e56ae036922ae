"""The training tutorial (blackjack, GRPO, other games by another server) runs cell by cell, with a tiny model."""

import importlib.util
import json
from pathlib import Path

import pytest

from openenv.envs.atari_env import AtariEnv
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.rl.config_file import config_from_mapping
from openenv.rl.reports.results import read_rows
from tests.envs.extras import ALL_ARE_INSTALLED
from tests.integrations_table import Record
from tests.tutorials.named import LeftOut, Plan, Replaced, Supplied
from tests.tutorials.reading import Reading, read, reading, tutorial

pytestmark = pytest.mark.process

CONFIG = """
name: {name}
blackjack_env: {{server_url: "{url}"}}
model: {{hidden_size: 48, num_layers: 1, intermediate_size: 96}}
group_size: 8
groups_in_flight: 16
max_req_tokens: 64
max_res_tokens: 3
pretrain: {{max_decisions: 1500, steps: {pretrain}, batch_size: 32, lr: 0.005}}
advantage: dr_grpo
trainer: {{training: {{steps: {steps}}}, optimizer: {{lr: 0.002}}}}
replay_buffer: {{batch_decisions: {decisions}}}
evaluation: {{num_games: 40, sessions: 20}}
"""
"""The file blackjack.yaml of a reader without a GPU, whose model is made here."""

SMALL = {"steps": 2, "pretrain": 20, "decisions": 20}


def blackjack_is_served(reader: Reading) -> None:
    with OpenSpielEnv(base_url=reader.url("8004")) as env:
        env.reset()
        assert env.state().game_name == "blackjack"


def the_library_path_has_this_python(reader: Reading) -> None:
    assert reader.value("lib_path in os.environ['LD_LIBRARY_PATH'].split(':')") is True


def the_first_hand_is_shown(reader: Reading) -> None:
    assert reader.value("result.observation.legal_actions") == [0, 1]
    assert "Hit" in reader.printed


def one_step_was_made(reader: Reading) -> None:
    assert reader.value("state.step_count") == 1
    assert reader.value("result.reward") in (-1.0, 0.0, 1.0, None)


def random_play_wins_a_third(reader: Reading) -> None:
    stats = reader.value("stats")
    assert stats["total_games"] == 100 == stats["wins"] + stats["losses"] + stats["pushes"]
    assert 0.15 < stats["win_rate"] < 0.45
    assert f"Wins: {stats['wins']}\n" in reader.printed
    assert f"Win rate: {stats['win_rate']:.1%}" in reader.printed


def rewards_are_shaped(reader: Reading) -> None:
    assert reader.value("[evaluate_response('', '', reward) for reward in (1, 0, -1)]") == [2.0, 0.5, -1.0]


def the_first_run_has_made_its_steps(reader: Reading) -> None:
    assert len(read_rows(reader.folder / "runs/first/metrics.jsonl")) == 100
    reader.run("await trainer.shutdown()")


def the_model_improves(reader: Reading) -> None:
    rows = read_rows(reader.folder / "runs/blackjack/metrics.jsonl")
    assert reader.value("results.steps") == 100 == len(rows)
    first, last = (sum(row["win_rate"] for row in part) / len(part) for part in (rows[:10], rows[-40:]))
    assert 0.15 < first < last < 0.6


def the_server_ends_with_the_trainer(reader: Reading) -> None:
    assert "Shutdown complete" in reader.printed


def tic_tac_toe_is_served(reader: Reading) -> None:
    with OpenSpielEnv(base_url=reader.url("8005")) as env:
        assert env.reset().observation.legal_actions == list(range(9))


def the_same_configuration_trains_on_the_other_game(reader: Reading) -> None:
    assert reader.value("cfg.blackjack_env.server_url") == f"http://localhost:{reader.port('8005')}"
    reader.run("save_cfg(cfg, 'other.yaml')\ntrainer = await setup_forge_training('other.yaml')")
    assert reader.value("(await trainer.run(steps=2)).steps") == 2
    (environment,) = json.loads((reader.folder / "runs/other/config.json").read_text())["env"]
    assert environment["reset"] == {}
    reader.run("await trainer.shutdown()")
    (first, *_) = read_rows(reader.folder / "runs/other/transcripts.jsonl")
    assert "a1 b1 c1 a2 b2 c2 a3 b3 c3" in first["turns"][0]["prompt"], "an empty board"


def chess_is_served(reader: Reading) -> None:
    with OpenSpielEnv(base_url=reader.url("8006")) as env:
        assert len(env.reset().observation.legal_actions) == 20


def pong_is_served(reader: Reading) -> None:
    with AtariEnv(base_url=reader.url("8007")) as env:
        assert env.reset().observation.legal_actions


def the_keys_are_understood(reader: Reading) -> None:
    with pytest.warns(FutureWarning, match="rollout_threads"):
        config = config_from_mapping(json.loads(reader.printed))
    assert (config.trainer.training.steps, config.group_size, config.groups_in_flight) == (1000, 8, 4)


def the_program_trains_and_reports(reader: Reading) -> None:
    assert "report:" in reader.printed
    assert len(read_rows(reader.folder / "runs/long/metrics.jsonl")) == 2


ATARI_IS_INSTALLED = ALL_ARE_INSTALLED or importlib.util.find_spec("ale_py") is not None
PLAN = Plan(
    left_out=()
    if ATARI_IS_INSTALLED
    else (LeftOut(digest="60350e5450e2", shows="the server of Pong", reason="the extra `atari` is not installed"),),
    replaced=tuple(
        Replaced(phrase=port, by=f"{{port:{port}}}", reason="the port may be in use")
        for port in ("8004", "8005", "8006", "8007")
    ),
    supplied=(
        Supplied(
            phrase="# Universal interface",
            code="action = OpenSpielAction(action_id=1)",
            reason="the cell shows the verbs; it takes any action",
        ),
        Supplied(
            phrase='setup_forge_training("config.yaml")',
            code="from grpo_utils import setup_forge_training",
            reason="the text shows the call before the cell that imports it",
        ),
        Supplied(
            phrase="cfg.blackjack_env",
            code="from tests.tutorials.supplied import loaded_cfg, save_cfg\ncfg = loaded_cfg('other.yaml')",
            reason="the line changes a configuration that the tutorial keeps in a file",
        ),
    ),
    checks={
        "OPENSPIEL_GAME=blackjack": blackjack_is_served,
        "lib_path": the_library_path_has_this_python,
        "show_openenv_observation(result": the_first_hand_is_shown,
        "# Universal interface": one_step_was_made,
        "play_random_policy(": random_play_wins_a_third,
        "def evaluate_response": rewards_are_shaped,
        'setup_forge_training("config.yaml")': the_first_run_has_made_its_steps,
        "results = await trainer.run(steps=100)": the_model_improves,
        "await trainer.shutdown()": the_server_ends_with_the_trainer,
        "OPENSPIEL_GAME=tic_tac_toe": tic_tac_toe_is_served,
        "cfg.blackjack_env": the_same_configuration_trains_on_the_other_game,
        "OPENSPIEL_GAME=chess": chess_is_served,
        "group_size: 8": the_keys_are_understood,
        "apps.grpo.blackjack_main_fixed": the_program_trains_and_reports,
        **({"envs.atari_env.server.app": pong_is_served} if ATARI_IS_INSTALLED else {}),
    },
)


@pytest.mark.integration("tutorials", "every cell of the training tutorial", package="nbclient")
def test_every_cell_runs(tmp_path: Path, record_property: Record) -> None:
    path = tutorial("000")
    with reading(tmp_path) as reader:
        (tmp_path / "apps/grpo").mkdir(parents=True)
        for file, name, size in (
            ("config", "first", SMALL), ("blackjack", "blackjack", {"steps": 100, "pretrain": 60, "decisions": 100}),
            ("other", "other", SMALL), ("apps/grpo/blackjack", "long", SMALL),
        ):  # fmt: skip
            text = CONFIG.format(name=name, url=reader.url("8004"), **size)
            (tmp_path / f"{file}.yaml").write_text(text)
        read(path, PLAN, reader)
        rows = read_rows(tmp_path / "runs/blackjack/metrics.jsonl")
        first, last = (sum(row["win_rate"] for row in part) / len(part) for part in (rows[:10], rows[-40:]))
    record_property("figure", f"100 steps: blackjack won {first:.0%} to {last:.0%}")
