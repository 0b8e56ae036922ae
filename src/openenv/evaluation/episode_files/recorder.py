"""Records the episodes of an evaluation, with the messages that its policy was shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action
from openenv.evaluation.episode_files.records import (
    EpisodeSource,
    Message,
    RecordedEpisode,
    RecordedTurn,
    group_of,
)
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.policies.base import PolicyReply
from openenv.policies.prompts import ChatMessage, PromptBuilder
from openenv.text.interface import TextInterface


@dataclass(slots=True)
class _Recording:
    """An episode that is being played."""

    observation: Any
    turns: list[RecordedTurn] = field(default_factory=list)
    conversation: list[Message] = field(default_factory=list)
    """The newest prompt with the reply to it."""
    functions: list[dict[str, Any]] = field(default_factory=list)
    described: list[ChatMessage] = field(default_factory=list)
    """What a policy without messages would have been shown before its newest action."""
    before: list[Message] = field(default_factory=list)
    """The conversation before that."""


class EpisodeRecorder(EpisodeObserver):
    """Records episodes of one policy.

    A policy without messages, such as a baseline, is recorded with those of the text interface: what a language model
    would have been shown, and the reply that names the action.
    """

    def __init__(self, source: EpisodeSource, text: TextInterface[Any, Any] | None = None) -> None:
        """text: None records such a policy without messages."""
        self.source = source
        self.episodes: list[RecordedEpisode] = []
        """Those that have ended, in that order."""
        self._text = text
        self._prompts = None if text is None else PromptBuilder(text, instructions=True)
        self._running: dict[int, _Recording] = {}

    def on_replies(self, episode: int, replies: Sequence[PolicyReply], action: Action | None) -> None:
        """Add the turns of the replies, or the one of a policy without messages."""
        recording = self._running[episode]
        seen = observation_json(recording.observation)
        shown = [_turn_of(recording, seen, reply) for reply in replies] or self._described(episode, action)
        if not shown:
            shown = [RecordedTurn()]
        if action is not None:
            shown[-1].action = action.model_dump(mode="json", exclude_unset=True)
        recording.turns += [turn.model_copy(update={"observation": seen}) for turn in shown]

    def on_refusal(self, episode: int) -> None:
        """The newest turn has no action that a replay could take. That of a policy without messages is left out."""
        recording = self._running[episode]
        if recording.described:
            recording.turns.pop()
            recording.conversation = recording.before
        else:
            recording.turns[-1].action = None

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Begin the episode, or complete its newest turn."""
        recording = self._running.get(episode)
        if recording is None:
            self._running[episode] = _Recording(result.observation)
            return
        recording.observation = result.observation
        newest = recording.turns[-1]
        if recording.described and self._prompts is not None and isinstance(newest.reply, dict):
            self._prompts.add_reply(episode, newest.reply["content"])
            recording.described = []
        newest.reward, newest.done = result.reward, result.done
        newest.truncated = result.validity == "truncated"

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        """Keep the episode; one that failed at its reset has no turns."""
        recording = self._running.pop(episode, _Recording(None))
        if self._prompts is not None:
            self._prompts.end_episode(episode)
        self.episodes.append(
            RecordedEpisode(
                source=self.source,
                episode_id=f"{self.source.policy}-{result.seed}",
                group=group_of(self.source, result.seed),
                seed=result.seed,
                outcome=result.outcome,
                success_return=result.success_return,
                reason=result.reason,
                total_reward=result.total_reward,
                turns=recording.turns,
                final_observation=observation_json(recording.observation),
                functions=recording.functions,
            )
        )

    def _described(self, episode: int, action: Action | None) -> list[RecordedTurn]:
        """The turn of a policy without messages."""
        if self._text is None or self._prompts is None or action is None:
            return []
        recording = self._running[episode]
        wording = self._text.wording(action, recording.observation)
        if wording is None:
            return []
        prompt = recording.described = recording.described or self._prompts.messages(episode, recording.observation)
        recording.before = recording.conversation
        message = {"role": "assistant", "content": wording}
        return [_turn_of(recording, None, PolicyReply(prompt=prompt, message=message, names_action=True))]


def result_of(episode: RecordedEpisode) -> EpisodeResult:
    """The result of a recorded episode. It has no counts of decisions."""
    is_model = episode.source.model is not None  # other policies wrote no replies
    replies = [turn for turn in episode.turns if is_model and turn.reply is not None]
    return EpisodeResult(
        seed=episode.seed or 0,
        total_reward=episode.total_reward,
        num_steps=len(episode.steps),
        outcome=episode.outcome,
        success_return=episode.success_return,
        reason=episode.reason,
        num_replies=len(replies),
        num_unparseable_replies=sum(turn.action is None for turn in replies),
        num_cut_off_replies=sum(turn.cut_off for turn in replies),
        prompt_tokens=sum(turn.prompt_tokens for turn in replies),
        completion_tokens=sum(turn.completion_tokens for turn in replies),
    )


def observation_json(observation: Any) -> dict[str, Any] | None:
    """An observation as the wire has it: JSON values, without reward and done."""
    if observation is None:
        return None
    fields: dict[str, Any] = observation.model_dump(mode="json", exclude={"reward", "done"})
    return fields


def _turn_of(recording: _Recording, seen: dict[str, Any] | None, reply: PolicyReply) -> RecordedTurn:
    """The turn of a reply, whose prompt may continue the conversation of the turns before."""
    prompt, message = [_plain(one) for one in reply.prompt], _plain(reply.message)
    known = len(recording.conversation)
    continues = known > 0 and prompt[:known] == recording.conversation
    recording.conversation = [*prompt, message]
    recording.functions = [dict(one) for one in reply.functions] or recording.functions
    return RecordedTurn(
        observation=seen,
        shown=prompt[known:] if continues else prompt,
        continues=continues,
        reply=message,
        cut_off=reply.is_cut_off,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
    )


def _plain(message: Any) -> Message:
    """A message without the ids of its tokens."""
    return {key: value for key, value in message.items() if key != "token_ids"}
