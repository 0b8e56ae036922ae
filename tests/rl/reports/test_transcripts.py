"""Sample transcripts show what the model saw, what it replied, and what that was worth."""

from pathlib import Path

import pytest

from openenv.formats.json_text import json_text
from openenv.rl.algorithm.replay_buffer import StepGroups
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.reports.results import StepLog, read_rows
from openenv.rl.reports.training_log import newest_transcripts
from openenv.rl.reports.transcripts import recorded_transcripts, sample_transcripts, turn_rows
from tests.rl.echo_game import echo_chat

CHAT = echo_chat()


def episode(reward: float, *words: str, outcome: str = "won") -> Trajectory:
    """An episode of one turn for each word; each sees `word red`."""
    segments, turns = [], []
    for word in words:
        prompt = CHAT.prompt([{"role": "user", "content": "word red"}])
        reply = (*CHAT.encode(word), CHAT.end_id)
        tokens = (*prompt, *reply)
        sampled = (*(False,) * len(prompt), *(True,) * len(reply))
        segments.append(Segment(tokens, sampled, (0.0,) * len(tokens), 2))
        turns.append(Turn("word red", word, None, word, reward=reward))
    return Trajectory(7, segments, turns, game_return=reward, outcome=outcome, reward=reward)  # type: ignore[arg-type]


def test_a_transcript_has_the_prompt_as_seen_the_reply_and_its_advantage() -> None:
    group = Group(5, [episode(1.0, "red", "red"), episode(-1.0, "blue", outcome="lost")])

    best, worst = sample_transcripts(3, StepGroups([group], [group]), 4, CHAT, "dr_grpo")

    prompt = CHAT.tokenizer.decode(CHAT.prompt([{"role": "user", "content": "word red"}]))
    turn = {
        "prompt": prompt,
        "continues": False,
        "reply": "red",
        "action": "red",
        "cut_off": False,
        "reward": 1.0,
        "advantage": 1.0,
    }
    assert "assistant" in prompt
    assert best["turns"] == [turn, turn]
    assert (best["step"], best["group"], best["seed"], best["policy_version"]) == (3, 5, 7, 2)
    assert (worst["outcome"], worst["turns"][0]["advantage"]) == ("lost", -1.0)


def test_a_sequence_that_grows_shows_each_turn_what_was_added() -> None:
    one, other = episode(1.0, "red").segments[0], episode(1.0, "blue").segments[0]
    shown = len(CHAT.prompt([{"role": "user", "content": "word red"}]))
    prompt, reply = (*one.token_ids, *CHAT.encode("word green")), tuple(other.token_ids[shown:])
    sampled = (False,) * len(prompt) + (True,) * len(reply)
    assert one.extend(Segment(prompt + reply, sampled, (0.0,) * len(sampled), 0))
    whole = episode(1.0, "red", "blue")
    whole.segments = [one]
    group = Group(0, [whole, episode(0.0, "red")])

    first = sample_transcripts(1, StepGroups([group], [group]), 1, CHAT, "dr_grpo")[0]

    assert first["turns"][1]["prompt"] == "word green"


def test_the_sampled_group_has_a_signal_and_the_best_and_the_worst_episode_are_shown() -> None:
    equal = Group(0, [episode(1.0, "red"), episode(1.0, "red")])
    unequal = Group(1, [episode(float(number), "red") for number in (3, 1, 4, 2, 0)])

    shown = sample_transcripts(1, StepGroups([equal, unequal], [equal, unequal]), 3, CHAT, "dr_grpo")

    assert [(transcript["group"], transcript["reward"]) for transcript in shown] == [(1, 4.0), (1, 2.0), (1, 0.0)]


def test_an_episode_that_is_not_trained_on_has_no_advantage() -> None:
    group = Group(0, [episode(1.0, "red"), episode(0.0, "red", outcome="invalid")])

    shown = sample_transcripts(1, StepGroups([group], []), 4, CHAT, "dr_grpo")

    assert [transcript["turns"][0]["advantage"] for transcript in shown] == [None, None]
    assert [transcript["outcome"] for transcript in shown] == ["won", "invalid"]


@pytest.mark.finding("null is null: lost episodes and rewards that were not given")
def test_an_invalid_episode_has_neither_return_nor_reward(tmp_path: Path) -> None:
    group = Group(0, [episode(1.0, "red"), episode(0.0, "red", outcome="invalid")])
    shown = sample_transcripts(1, StepGroups([group], []), 4, CHAT, "dr_grpo")
    (tmp_path / "transcripts.jsonl").write_text("".join(f"{json_text(one)}\n" for one in shown), encoding="utf-8")

    read = recorded_transcripts(tmp_path / "transcripts.jsonl")

    assert [(transcript["return"], transcript["reward"]) for transcript in shown] == [(1.0, 1.0), (None, None)]
    assert [one.outcome for one in read] == ["won", "invalid"]


def test_a_table_has_a_row_for_each_turn() -> None:
    group = Group(5, [episode(1.0, "red", "green"), episode(-1.0, "blue")])

    rows = turn_rows(sample_transcripts(3, StepGroups([group], [group]), 4, CHAT, "dr_grpo"))

    assert [(row["episode"], row["turn"], row["completion"], row["advantage"]) for row in rows] == [
        (0, 0, "red", 1.0),
        (0, 1, "green", 1.0),
        (1, 0, "blue", -1.0),
    ]


def test_the_newest_transcripts_are_those_of_the_latest_step(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "transcripts.jsonl")
    log.append({"step": 1, "group": 1}, {"step": 11, "group": 2}, {"step": 11, "group": 3})

    assert [row["group"] for row in newest_transcripts(read_rows(tmp_path / "transcripts.jsonl"))] == [2, 3]
    assert newest_transcripts([]) == []
