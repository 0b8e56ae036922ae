"""Episodes in the Agent Trajectory Interchange Format, version 1.7, as Harbor and its tools read it."""

import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from openenv.evaluation.episode_files.records import Message, RecordedEpisode, RecordedTurn
from openenv.formats.json_text import json_text
from openenv.text.content import text_of

SCHEMA_VERSION = "ATIF-v1.7"
ACTION = "action"
"""The function of an action that was no call of a function; its arguments are the action's fields."""


def write_trajectories(episodes: Sequence[RecordedEpisode], target: Path) -> str:
    """Write `<episode>.json` into a folder for each episode. Raises ValueError for an episode without any turn."""
    target.mkdir(parents=True)
    names: set[str] = set()
    for number, episode in enumerate(episodes):
        name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in episode.episode_id)
        name = f"{name}-{number}" if name in names else name
        names.add(name)
        text = json_text(trajectory(episode), ensure_ascii=False, indent=1)
        (target / f"{name}.json").write_text(text, encoding="utf-8")
    return f"{len(names)} trajectories in {target}"


def trajectory(episode: RecordedEpisode) -> dict[str, Any]:
    """One episode as a trajectory.

    What the policy was shown first are steps of the system and the user. Each reply is a step of the agent: its text,
    its action as a tool call, and what the environment returned as the call's observation. Rewards, and observations
    as JSON, are in each step's `extra`. Images are named, not embedded: the format refers to files.
    """
    if not episode.turns:
        raise ValueError(f"episode {episode.episode_id} has no turns, and a trajectory has at least one step")
    source = episode.source
    steps = [{"step_id": number, **step} for number, step in enumerate(_steps(episode), start=1)]
    agent = {
        "name": f"openenv {source.policy}",
        "version": version("openenv-rl"),
        "model_name": source.model,
        "tool_definitions": episode.functions or None,
    }
    extra = {
        "environment": source.environment,
        "reset": source.reset,
        "seed": episode.seed,
        "group": episode.group,
        "outcome": episode.outcome,
        "total_reward": episode.total_reward,
        "final_observation": episode.final_observation,
    }
    return _known(
        {
            "schema_version": SCHEMA_VERSION,
            "session_id": episode.episode_id,
            "agent": _known(agent),
            "steps": steps,
            "notes": episode.reason,
            "final_metrics": {**_tokens(episode.turns, "total_"), "total_steps": len(steps)},
            "extra": _known(extra),
        }
    )


def _steps(episode: RecordedEpisode) -> Iterator[dict[str, Any]]:
    """The steps, without their numbers."""
    yield from _openings(episode.turns[0])
    for number, turn in enumerate(episode.turns):
        newer = episode.turns[number + 1] if number + 1 < len(episode.turns) else None
        yield _agent_step(f"call_{number + 1}", turn, _after(episode, newer))


def _openings(turn: RecordedTurn) -> Iterator[dict[str, Any]]:
    """The messages that a prompt begins with."""
    if turn.shown is None:
        yield {"source": "user", "message": json_text(turn.observation, ensure_ascii=False)}
    elif isinstance(turn.shown, str):
        yield {"source": "user", "message": turn.shown}
    else:
        for message in turn.shown:
            source = "agent" if message["role"] == "assistant" else "system" if message["role"] == "system" else "user"
            yield {"source": source, "message": _text(message)}


def _after(episode: RecordedEpisode, newer: RecordedTurn | None) -> str | None:
    """What the policy is shown after a turn, which is the observation of its step."""
    if newer is None:
        final = episode.final_observation
        return None if final is None else json_text(final, ensure_ascii=False)
    if isinstance(newer.shown, list):
        return "\n".join(_text(message) for message in newer.shown if message["role"] != "system")
    return newer.shown if newer.shown is not None else json_text(newer.observation, ensure_ascii=False)


def _agent_step(call_id: str, turn: RecordedTurn, after: str | None) -> dict[str, Any]:
    """The step of a reply."""
    reply = turn.reply
    message = reply if isinstance(reply, str) else "" if reply is None else _text(reply)
    step: dict[str, Any] = {"source": "agent", "message": message}
    if turn.action is not None:
        step["tool_calls"] = [_call(call_id, turn)]
    if after is not None:
        result = {"content": after, **({"source_call_id": call_id} if turn.action is not None else {})}
        step["observation"] = {"results": [result]}
    if turn.prompt_tokens or turn.completion_tokens:
        step["metrics"] = _tokens([turn])
    extra = turn.model_dump(include={"reward", "done", "truncated", "observation"})
    return {**step, "extra": _known({**extra, "action": turn.action})}


def _call(call_id: str, turn: RecordedTurn) -> dict[str, Any]:
    """The action as a call: the model's own, or of `ACTION`."""
    if isinstance(turn.reply, dict) and turn.reply.get("tool_calls"):
        function = turn.reply["tool_calls"][0]["function"]
        return {
            "tool_call_id": call_id,
            "function_name": function["name"],
            "arguments": json.loads(function["arguments"]),
        }
    action = turn.action or {}
    if "tool_name" in action and "arguments" in action:
        return {"tool_call_id": call_id, "function_name": action["tool_name"], "arguments": action["arguments"]}
    return {"tool_call_id": call_id, "function_name": ACTION, "arguments": action}


def _tokens(turns: Sequence[RecordedTurn], prefix: str = "") -> dict[str, int]:
    return {
        f"{prefix}prompt_tokens": sum(turn.prompt_tokens for turn in turns),
        f"{prefix}completion_tokens": sum(turn.completion_tokens for turn in turns),
    }


def _text(message: Message) -> str:
    return text_of(message.get("content") or "")


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """The values that there are."""
    return {key: value for key, value in values.items() if value is not None}
