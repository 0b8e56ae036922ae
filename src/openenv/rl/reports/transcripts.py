"""Sample transcripts: a few episodes of a training step as text, with the prompts that the model was shown."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.evaluation.episode_files.records import EpisodeSource, RecordedEpisode, RecordedTurn
from openenv.formats.json_text import json_lines
from openenv.rl.algorithm.advantages import batch_advantages
from openenv.rl.algorithm.learning_signal import has_signal
from openenv.rl.algorithm.replay_buffer import StepGroups
from openenv.rl.algorithm.trajectory import Group, Trajectory, Turn
from openenv.rl.config import AdvantageName

if TYPE_CHECKING:
    from openenv.rl.models.chat import Chat

Transcript = dict[str, Any]
"""One episode: `step`, `environment` (its number), `group`, `seed`, `policy_version`, `outcome`, `reason`, `return`,
`reward`, and `turns`, each with `prompt`, `continues` (whether the turns before come before its prompt), `reply`,
`action`, `cut_off` (whether the limit of tokens ended the reply), `reward` and `advantage`. `return` and `reward` of an
invalid episode are None."""


def sample_transcripts(
    step: int, groups: StepGroups, number: int, chat: "Chat", advantage: AdvantageName
) -> list[Transcript]:
    """Transcripts of at most `number` episodes of one group, from the highest reward to the lowest.

    The group is the first with a signal, or without one the first that was played. If it has more episodes than
    `number`, they are evenly spaced in the order of rewards, so that the best and the worst are among them.
    """
    group = next((group for group in groups.trained if has_signal(group)), groups.played[0])
    advantages = _advantages(group, groups.trained, advantage)
    ordered = sorted(range(len(group.trajectories)), key=lambda i: _rank(group.trajectories[i]), reverse=True)
    return [
        _transcript(step, group, group.trajectories[i], advantages.get(i), chat)
        for i in _evenly_spaced(ordered, number)
    ]


def turn_rows(transcripts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each turn, for a table: TRL's columns `step`, `prompt`, `completion`, `reward` and `advantage`, and
    those of the episode."""
    return [
        {
            "step": transcript["step"],
            "group": transcript["group"],
            "episode": number,
            "turn": index,
            "prompt": turn["prompt"],
            "completion": turn["reply"],
            "reward": turn["reward"],
            "advantage": turn["advantage"],
            "episode_reward": transcript["reward"],
            "outcome": transcript["outcome"],
        }
        for number, transcript in enumerate(transcripts)
        for index, turn in enumerate(transcript["turns"])
    ]


def is_transcript_file(first_line: str) -> bool:
    """Whether this is the first line of a run's `transcripts.jsonl`."""
    try:
        found = json.loads(first_line)
    except ValueError:
        return False
    return isinstance(found, dict) and {"step", "group", "turns", "policy_version"} <= found.keys()


def recorded_transcripts(path: Path) -> list[RecordedEpisode]:
    """The sample transcripts of a run's `transcripts.jsonl` as recorded episodes. Prompts are texts, as their tokens
    decode; observations and actions as JSON are not in them."""
    return [_recorded(path.parent.name, number, json.loads(line)) for number, line in enumerate(json_lines(path))]


def _recorded(run: str, number: int, transcript: Transcript) -> RecordedEpisode:
    step, environment, group = transcript["step"], transcript["environment"], transcript["group"]
    return RecordedEpisode(
        source=EpisodeSource(environment=f"{run}/{environment}", policy=f"{run} at step {step}"),
        episode_id=f"{run}-{step}-{number}",
        group=f"{run} {step} {environment} {group}",
        seed=transcript["seed"],
        outcome=transcript["outcome"],
        reason=transcript["reason"] or None,
        total_reward=transcript["return"],
        turns=[
            RecordedTurn(
                shown=turn["prompt"],
                continues=bool(turn.get("continues")),
                reply=turn["reply"],
                action=None if turn["action"] is None else {"reply": turn["action"]},
                reward=turn["reward"],
                cut_off=bool(turn.get("cut_off")),
            )
            for turn in transcript["turns"]
        ],
    )


def _rank(trajectory: Trajectory) -> tuple[bool, float]:
    """Invalid episodes, which have no reward, come last."""
    return trajectory.valid, trajectory.reward


def _evenly_spaced(values: Sequence[int], number: int) -> list[int]:
    if number >= len(values) or number < 2:
        return list(values[:number])
    return [values[round(place * (len(values) - 1) / (number - 1))] for place in range(number)]


def _advantages(group: Group, trained: Sequence[Group], name: AdvantageName) -> dict[int, list[float]]:
    """The advantages of the group's episodes, by their place in it. Empty if the group is not trained on."""
    place = next((place for place, other in enumerate(trained) if other is group), None)
    if place is None:
        return {}
    valid = [number for number, trajectory in enumerate(group.trajectories) if trajectory.valid]
    return dict(zip(valid, batch_advantages(name, trained)[place], strict=True))


def _transcript(
    step: int, group: Group, trajectory: Trajectory, advantages: Sequence[float] | None, chat: "Chat"
) -> Transcript:
    """advantages: one for each turn, or a single one for all; None for an episode that is not trained on."""
    prompts = [(prompt, n > 0) for segment in trajectory.segments for n, prompt in enumerate(segment.prompts)]
    by_turn = list(advantages or [])
    made = trajectory.turns
    if trajectory.is_of_program:
        replies = [chat.text(reply) for segment in trajectory.segments for reply in segment.replies]
        made = [Turn("", reply, None, None) for reply in replies]
    if len(by_turn) == 1:
        by_turn *= len(made)
    turns = [
        {
            "prompt": chat.tokenizer.decode(prompt),
            "continues": continues,
            "reply": turn.reply,
            "action": turn.action,
            "cut_off": turn.is_cut_off,
            "reward": turn.reward,
            "advantage": by_turn[number] if by_turn else None,
        }
        for number, ((prompt, continues), turn) in enumerate(zip(prompts, made, strict=True))
    ]
    return {
        "step": step,
        "environment": group.environment,
        "group": group.index,
        "seed": trajectory.seed,
        "policy_version": trajectory.policy_version,
        "outcome": trajectory.outcome,
        "reason": trajectory.reason,
        "return": trajectory.game_return if trajectory.valid else None,  # null: a failure has no result
        "reward": trajectory.reward if trajectory.valid else None,
        "turns": turns,
        **({"actions": [turn.reply for turn in trajectory.turns]} if trajectory.is_of_program else {}),
    }
