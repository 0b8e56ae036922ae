"""Lets a language model choose actions: prompts, retries after unparseable replies, and limits of tokens.

Rollouts and evaluation use the same class, so that a model is evaluated under the rules that it was trained with.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openenv.core.env_server.types import Action
from openenv.core.outcomes import REFUSED
from openenv.policies.base import Choice, EndEpisode
from openenv.policies.prompts import (
    ChatMessage,
    CompletionFailed,
    PromptBuilder,
    SampledReply,
    answer_of,
    is_cut_off,
)
from openenv.text.constraints import ReplyConstraint
from openenv.text.interface import TextInterface

OutOfTokens = Literal["fail", "end", "forget"]

CompleteTurns = Callable[[Sequence["ReplyRequest"]], Sequence[str]]
"""Completes a batch of conversations. Returns one reply for each."""
CompleteTurn = Callable[["ReplyRequest"], Awaitable[str]]
"""The same for one, in an event loop."""
OnReply = Callable[[Hashable, Any, str, Any], None]
"""Called with the episode, the observation, the reply, and the action that it names or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRules:
    """What happens to replies that name no legal action, and to episodes with too many tokens."""

    retries: int = 0
    """Further replies to one observation after a reply that names no legal action, or one that the environment
    refuses. The model is shown the problem."""
    max_episode_tokens: int | None = None
    """Tokens sampled in an episode after which no reply begins. It counts replies whose tokens are known."""
    out_of_tokens: OutOfTokens = "fail"
    """fail: the episode ends as unparseable. end: it ends, and its rewards so far count. forget: prompts lose their
    oldest turns until they fit; where that is not enough, as fail."""


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A prompt that a model is to reply to."""

    episode: Any
    """Its number, or whatever it was named by."""
    messages: list[ChatMessage]
    constraint: ReplyConstraint | None = None
    """What the reply may be; None: anything."""
    token_ids: tuple[int, ...] | None = None
    """The tokens of the prompt, if they are known: the messages then have its images alone."""


class Conversations:
    """The conversations of any number of episodes with one model. Not thread-safe: call it from one thread at a time.

    Example:
        conversations = Conversations(PromptBuilder(text, instructions=True), text)
        for (episode, observation), choice in zip(turns, conversations.choose(turns, complete)): ...
    """

    def __init__(
        self,
        prompts: PromptBuilder,
        text: TextInterface[Any, Any],
        *,
        constrains: bool = False,
        rules: ReplyRules | None = None,
        fits: Callable[[list[ChatMessage]], bool] | None = None,
        on_reply: OnReply | None = None,
    ) -> None:
        """
        Args:
            constrains: whether a request has what its reply may be.
            fits: whether a prompt is short enough; None: all are.
            on_reply: receives every reply, in its order.
        """
        self.rules = rules or ReplyRules()
        self.num_unparseable = 0
        """Number of replies that named no legal action."""
        self._prompts = prompts
        self._text = text
        self._constrains = constrains
        self._fits = fits
        self._on_reply = on_reply
        self._sampled: Counter[Hashable] = Counter()
        """Tokens sampled in each episode."""
        self._tries: Counter[Hashable] = Counter()
        """Replies to the newest observation of each episode."""
        self._refusals: dict[Hashable, str] = {}
        """Why the environment refused the newest action, of episodes that may reply again."""

    @property
    def num_episodes(self) -> int:
        """Number of episodes that are remembered."""
        return self._prompts.num_episodes

    def choose(self, turns: Sequence[tuple[Hashable, Any]], complete: CompleteTurns) -> list[Choice]:
        """The action of each turn, an episode and its newest observation. All replies of a round are one batch.

        A turn whose reply could not be had ends its episode alone.
        """
        choices: list[Choice] = [None] * len(turns)
        running = {number: self._turn(*turn) for number, turn in enumerate(turns)}
        replies: dict[int, str | CompletionFailed | None] = dict.fromkeys(running)
        while running:
            asked: dict[int, ReplyRequest] = {}
            for number, turn in list(running.items()):
                try:
                    asked[number] = turn.send(replies[number])
                except StopIteration as end:
                    choices[number] = end.value
                    del running[number]
            if asked:
                replies = dict(zip(asked, _completed(complete, list(asked.values())), strict=True))
        return choices

    async def choose_one(self, episode: Hashable, observation: Any, complete: CompleteTurn) -> Choice:
        """The same for one turn, in an event loop: others may be chosen meanwhile."""
        turn = self._turn(episode, observation)
        reply: str | CompletionFailed | None = None
        while True:
            try:
                request = turn.send(reply)
            except StopIteration as end:
                choice: Choice = end.value
                return choice
            try:
                reply = await complete(request)
            except CompletionFailed as error:
                reply = error

    def _turn(
        self, episode: Hashable, observation: Any
    ) -> Generator[ReplyRequest, str | CompletionFailed | None, Choice]:
        """Yields each prompt of a turn, receives its reply, and returns the action."""
        messages = self._prompt(episode, observation)
        while True:
            fitting = self._within_limits(episode, messages)
            if isinstance(fitting, EndEpisode):
                return fitting
            reply = yield ReplyRequest(
                episode, fitting, self._text.constraint(observation) if self._constrains else None
            )
            if isinstance(reply, CompletionFailed):
                return EndEpisode.of_error(reply)
            assert reply is not None
            choice = self._choice(episode, observation, reply)
            if not isinstance(choice, EndEpisode) or not self._may_retry(episode):
                return choice
            messages = self._prompts.with_problem(episode, choice.reason)

    def refuse(self, episode: Hashable, reason: str) -> bool:
        """The environment refused the action that the newest reply named.

        Returns whether a retry is left: `choose` then shows the reason in place of the observation.
        """
        if self._may_retry(episode):
            self._refusals[episode] = f"{REFUSED}: {reason}"
        return episode in self._refusals

    def _may_retry(self, episode: Hashable) -> bool:
        return self._tries[episode] <= self.rules.retries

    def _prompt(self, episode: Hashable, observation: Any) -> list[ChatMessage]:
        """The prompt of a new turn, or of a retry after a refused action."""
        refusal = self._refusals.pop(episode, None)
        if refusal is not None:
            return self._prompts.with_problem(episode, refusal)
        self._tries[episode] = 0
        return self._prompts.messages(episode, observation)

    def end_episode(self, episode: Hashable) -> None:
        """Forget an episode that has ended."""
        self._prompts.end_episode(episode)
        self._sampled.pop(episode, None)
        self._tries.pop(episode, None)
        self._refusals.pop(episode, None)

    def _within_limits(self, episode: Hashable, messages: list[ChatMessage]) -> list[ChatMessage] | EndEpisode:
        """The prompt as it may be completed, or the end of an episode that has no tokens left."""
        most = self.rules.max_episode_tokens
        fitting = self._fitting(episode, messages)
        if most is not None and self._sampled[episode] >= most:
            return self._out_of_tokens(f"{self._sampled[episode]} sampled tokens are the episode's most")
        return self._out_of_tokens("the prompt is too long") if fitting is None else fitting

    def _fitting(self, episode: Hashable, messages: list[ChatMessage]) -> list[ChatMessage] | None:
        """The prompt, without its oldest turns if they may be forgotten; None if it is too long."""
        shown: list[ChatMessage] | None = messages
        while shown is not None and self._fits is not None and not self._fits(shown):
            shown = self._prompts.forget_turn(episode) if self.rules.out_of_tokens == "forget" else None
        return shown

    def _out_of_tokens(self, reason: str) -> EndEpisode:
        return EndEpisode(f"out of tokens: {reason}", counts=self.rules.out_of_tokens == "end")

    def _choice(self, episode: Hashable, observation: Any, reply: str) -> Choice:
        """The action that a reply names, or the end of the episode."""
        self._prompts.add_reply(episode, reply)
        self._tries[episode] += 1
        self._sampled[episode] += len(reply.token_ids) if isinstance(reply, SampledReply) else 0
        action = action_of(reply, self._text, observation)
        if self._on_reply is not None:
            self._on_reply(episode, observation, reply, action)
        if action is not None:
            return action
        self.num_unparseable += 1
        return EndEpisode(problem_of(reply, self._text, observation))


def _completed(complete: CompleteTurns, requests: Sequence[ReplyRequest]) -> Sequence[str | CompletionFailed]:
    """The reply to each prompt, or the failure to get one."""
    try:
        return complete(requests)
    except CompletionFailed as error:
        return error.outcomes or [error] * len(requests)


def action_of(reply: str, text: TextInterface[Any, Any], observation: Any) -> Action | None:
    """The action that a model's reply names; None if it names none for certain, as where its thinking has no end."""
    answer = answer_of(reply)
    if answer is None:
        return None
    action: Action | None = (text.parse_cut_off if is_cut_off(reply) else text.parse)(answer, observation)
    return action


def problem_of(reply: str, text: TextInterface[Any, Any], observation: Any) -> str:
    """Why a model's reply names no action, and what may be written instead."""
    answer = answer_of(reply)
    cut = "the reply was cut off at the limit of its tokens: write a shorter one. " if is_cut_off(reply) else ""
    if answer is None:
        return f"{cut}The thinking has no end, so that no answer follows it."
    return f"{cut}{text.problem(answer, observation)}"
