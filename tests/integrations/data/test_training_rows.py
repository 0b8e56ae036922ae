"""Rows for TRL: its SFTTrainer and DPOTrainer take a step on them."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from openenv.evaluation.episode_files.records import EpisodeSource, RecordedEpisode, RecordedTurn
from openenv.integrations.data import export_episodes
from openenv.integrations.data.training_rows import dpo_rows, sft_rows
from tests.integrations.trl.trainers import tiny_model, tools_tokenizer
from tests.integrations_table import Record

pytestmark = pytest.mark.process
ARGUMENTS = {
    "max_steps": 1,
    "per_device_train_batch_size": 4,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "logging_steps": 1,
}


def loss_of(trainer: Any) -> float:
    """The loss of the trainer's one step."""
    trainer.train()
    return next(row["loss"] for row in trainer.state.log_history if "loss" in row)


@pytest.mark.integration("data", "SFTTrainer takes a step on rows of blackjack", package="trl")
def test_sft_rows_are_the_turns_and_train(
    blackjack: list[RecordedEpisode], tmp_path: Path, record_property: Record
) -> None:
    export_episodes(blackjack, "sft", tmp_path / "sft")
    rows = datasets.load_from_disk(tmp_path / "sft")

    steps = [(episode, turn) for episode in blackjack for turn in episode.steps]
    assert [row["completion"] for row in rows] == [[turn.reply] for _, turn in steps]
    assert [row["prompt"] for row in rows] == [turn.shown for _, turn in steps], "blackjack shows the newest state"
    assert [row["episode_id"] for row in rows] == [episode.episode_id for episode, _ in steps]
    tokenizer = tools_tokenizer(["cards dealer hit stand"])
    args = SFTConfig(output_dir=str(tmp_path / "run"), **ARGUMENTS)
    loss = loss_of(SFTTrainer(tiny_model(tokenizer), args, train_dataset=rows, processing_class=tokenizer))
    record_property("figure", f"{len(rows)} rows, loss {loss:.2f}")
    assert 0.0 < loss < 20.0


@pytest.mark.integration("data", "SFTTrainer takes a step on rows of calendar, with tool calls", package="trl")
def test_sft_rows_with_calls_train(called: list[RecordedEpisode], tmp_path: Path, record_property: Record) -> None:
    export_episodes(called, "sft", tmp_path / "sft.parquet")
    rows = datasets.Dataset.from_parquet(str(tmp_path / "sft.parquet"), cache_dir=str(tmp_path / "cache"))

    assert len(rows) == 6, "two turns of each episode named a tool"
    last = rows[1]
    assert [message["role"] for message in last["prompt"]][-4:] == ["assistant", "tool", "assistant", "tool"]
    assert last["completion"][0]["tool_calls"][0]["function"]["name"] == "finish"
    assert "list_people" in {tool["function"]["name"] for tool in last["tools"]}
    tokenizer = tools_tokenizer([json.dumps(last["tools"])])
    args = SFTConfig(output_dir=str(tmp_path / "run"), max_length=None, **ARGUMENTS)
    loss = loss_of(SFTTrainer(tiny_model(tokenizer), args, train_dataset=rows, processing_class=tokenizer))
    record_property("figure", f"{len(rows)} rows, loss {loss:.2f}")
    assert 0.0 < loss < 20.0


@pytest.mark.integration("data", "DPOTrainer takes a step on pairs of blackjack", package="trl")
def test_dpo_pairs_train(blackjack: list[RecordedEpisode], tmp_path: Path, record_property: Record) -> None:
    export_episodes(blackjack, "dpo", tmp_path / "dpo")
    pairs = datasets.load_from_disk(tmp_path / "dpo")

    assert all(pair["score_chosen"] > pair["score_rejected"] for pair in pairs)
    assert all(pair["chosen"] != pair["rejected"] for pair in pairs)
    tokenizer = tools_tokenizer(["cards dealer hit stand"])
    args = DPOConfig(output_dir=str(tmp_path / "run"), **ARGUMENTS)
    model, reference = tiny_model(tokenizer), tiny_model(tokenizer)
    loss = loss_of(DPOTrainer(model, reference, args, train_dataset=pairs, processing_class=tokenizer))
    record_property("figure", f"{len(pairs)} pairs, loss {loss:.2f}")
    assert loss == pytest.approx(0.693, abs=0.01), "an untrained policy equals its reference: ln 2"


def episode(number: int, total: float, *replies: str, outcome: Any = "won", group: str = "a") -> RecordedEpisode:
    """An episode whose turns each show `turn N` and are answered by one of the replies."""
    turns = [
        RecordedTurn(
            shown=[{"role": "user", "content": f"turn {place}"}],
            continues=place > 0,
            reply={"role": "assistant", "content": reply},
            action=None if reply == "?" else {"word": reply},
        )
        for place, reply in enumerate(replies)
    ]
    source = EpisodeSource(environment="game", policy="p")
    return RecordedEpisode(
        source=source, episode_id=str(number), group=group, outcome=outcome, total_reward=total, turns=turns
    )


def words(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]


def test_a_pair_is_the_best_reply_and_a_worse_one_where_episodes_of_a_group_part() -> None:
    played = [
        episode(0, 1.0, "up", "left"),
        episode(1, 0.0, "up", "right"),
        episode(2, 0.25, "down"),
        episode(3, 9.0, "down", group="b"),
        episode(4, 0.0, "?", outcome="unparseable"),
        episode(5, 5.0, "down", outcome="invalid"),
    ]
    pairs = [(words(r["prompt"]), *words(r["chosen"] + r["rejected"]), r["score_chosen"], r["score_rejected"])
             for r in dpo_rows(played)]  # fmt: skip

    assert pairs == [
        (["turn 0"], "up", "down", 0.5, 0.25),
        (["turn 0"], "up", "?", 0.5, -1.0),
        (["turn 0", "up", "turn 1"], "left", "right", 1.0, 0.0),
    ]


def test_replies_that_name_no_action_are_shown_but_not_trained_on() -> None:
    (row, *others) = sft_rows([episode(0, 1.0, "?", "up"), episode(1, 0.0, "?", outcome="unparseable")])

    assert others == []
    assert words(row["prompt"]) == ["turn 0", "?", "turn 1"]
    assert words(row["completion"]) == ["up"]


def test_equal_returns_give_no_pair(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="play each seed several times"):
        export_episodes([episode(0, 1.0, "up"), episode(1, 1.0, "down")], "dpo", tmp_path / "dpo")


def test_episodes_without_messages_are_refused(tmp_path: Path) -> None:
    silent = episode(0, 1.0, "up").model_copy(update={"turns": [RecordedTurn(action={"word": "up"})]})
    with pytest.raises(ValueError, match="have no messages"):
        export_episodes([silent], "sft", tmp_path / "sft")
