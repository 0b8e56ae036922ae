"""Random play through an agent's program: what its model is asked, answered with random legal calls and replies."""

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from openenv.agents.endpoint.requests import CalledTool, Message, ModelAnswer, ModelReply, ModelRequest
from openenv.agents.endpoint.server import Endpoint
from openenv.evaluation.episodes import EpisodeSessions
from openenv.formats.json_text import json_text
from openenv.rl.agents.environment import EnvironmentEpisode
from openenv.rl.agents.kinds import agent_of
from openenv.rl.agents.program import in_sessions, run_program
from openenv.rl.agents.shown import ShownTools
from openenv.rl.algorithm.trajectory import Trajectory
from openenv.rl.config import Config, ConfigError
from openenv.rl.training.outcome_labels import outcome_labels
from openenv.rl.training.teacher_play import FIRST_SEED, MAX_FAILURES, CollectedPlay
from openenv.rl.training.transcripts import OF_PROGRAM
from openenv.rl.training.transcripts import Message as ShownMessage
from openenv.schema.samples import SchemaSampler, words_of
from openenv.text.action_forms import call_text
from openenv.text.content import frozen
from openenv.text.interface import TextInterface

log = logging.getLogger(__name__)

_BLOCK = 64
"""Episodes that begin before it is asked whether the time is up."""
_LAST_WORD = "Done."
"""The reply after the end of an episode, where a program leaves it to the model whether it calls a function."""


class RandomModel:
    """Answers the calls of one episode. As `agents.endpoint.requests.AnswersRequests`."""

    def __init__(self, episode: EnvironmentEpisode, seed: int) -> None:
        """seed: of the draws, which depend on it and on what is asked."""
        self.num_replies = 0
        self._episode = episode
        self._seed = seed
        self._asked = Counter[tuple[ShownMessage, ...]]()
        self._conversations: dict[tuple[ShownMessage, ...], None] = {}
        self._replied = set[tuple[ShownMessage, ...]]()
        """Each conversation up to a reply."""

    def conversations(self) -> list[tuple[ShownMessage, ...]]:
        """What was shown and replied, each conversation that grew once. A program may show other replies than these."""
        return [
            tuple(
                (OF_PROGRAM, content) if role == "assistant" and whole[:place] not in self._replied else (role, content)
                for place, (role, content) in enumerate(whole, start=1)
            )
            for whole in self._conversations
        ]

    def stop(self) -> None:
        """It holds nothing that would go on."""

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """Answer a call."""
        tools = request.tools if request.tool_choice != "none" else ()
        shown = tuple(
            (message["role"], frozen(message["content"]))
            for message in ShownTools(tools, is_described=True).messages(request.messages)
        )
        return ModelAnswer(tuple(self._reply(request, shown) for _ in range(request.num_replies)))

    def _reply(self, request: ModelRequest, shown: tuple[ShownMessage, ...]) -> ModelReply:
        self.num_replies += 1
        self._asked[shown] += 1
        rng = Random(f"{self._seed}/{self._asked[shown]}/{json_text(shown, default=repr)}")
        text, reply = self._drawn(request, rng)
        for length in range(len(shown), 0, -1):
            self._conversations.pop(shown[:length], None)  # this conversation has all of it
        whole = (*shown, ("assistant", text))
        self._conversations[whole] = None
        self._replied.add(whole)
        return reply

    def _drawn(self, request: ModelRequest, rng: Random) -> tuple[str, ModelReply]:
        """A reply, as the text that the model writes and as the program receives it."""
        may_call = request.tool_choice == "required" or (request.tool_choice == "auto" and not self._episode.is_done)
        tools = [tool for tool in request.tools if may_call and request.named_tool in (None, tool["name"])]
        words = words_of(self._episode.seen)
        if tools:
            tool = rng.choice(self._open(tools))
            arguments = SchemaSampler(tool["parameters"], rng, optional=True, words=words).sample()
            call = CalledTool(
                f"call{self.num_replies - 1:05d}00", tool["name"], json_text(arguments, ensure_ascii=False)
            )
            return call_text(call.name, arguments), ModelReply("", tool_calls=(call,), end="tool_calls")
        if request.reply_schema is not None:
            text = json_text(SchemaSampler(request.reply_schema, rng, words=words).sample(), ensure_ascii=False)
        else:
            text = _LAST_WORD if self._episode.is_done else self._episode.random_reply(rng)
        return text, ModelReply(text)

    def _open(self, tools: Sequence[Message]) -> Sequence[Message]:
        """The functions to choose from: after the end of the episode those of the program, which may end it."""
        if not self._episode.is_done:
            return tools
        known = tuple(tool.name for tool in self._episode.tools())
        return [tool for tool in tools if not tool["name"].endswith(known)] or tools


class _Played(NamedTuple):
    trajectory: Trajectory
    model: RandomModel


async def agent_random_play(
    config: Config,
    text: TextInterface[Any, Any],
    pool: EpisodeSessions,
    reset: Mapping[str, Any],
    on_episode: Callable[[int, int], None],
    is_time_up: Callable[[], bool],
) -> CollectedPlay:
    """Random play of one environment through the run's program: few episodes, because programs are slow.

    Args:
        config: that of the run.
        text: the environment's text interface.
        pool: sessions of its server.
        reset: keywords of every reset.
        on_episode: called after each episode with how many have been played, and how many there are.
        is_time_up: no episodes begin after it has returned True, but for the first.

    Raises:
        ConfigError: for a program that fails.
    """
    settings = config.agent
    assert settings is not None
    agent, most = agent_of(settings), settings.random_episodes
    numbers = itertools.count(1)
    collected, conversations = CollectedPlay(), Counter[tuple[tuple[ShownMessage, ...], float]]()

    async def play(number: int, session: int) -> _Played:
        seed = FIRST_SEED + number
        episode = EnvironmentEpisode(pool, session, text, seed, config.conversation)
        model = RandomModel(episode, seed)
        await episode.begin(reset)
        await run_program(agent, settings.time_limit_s, endpoint, model, episode)
        on_episode(next(numbers), most)
        return _Played(episode.trajectory, model)

    async with Endpoint() as endpoint:
        for first in range(0, most, _BLOCK):
            if first and is_time_up():
                break
            for one in await in_sessions(pool, settings.at_once, range(first, min(first + _BLOCK, most)), play):
                _add(one, collected, conversations)
    if not collected.returns:
        raise ConfigError(_failed(collected.num_left_out, one.trajectory))
    labels = outcome_labels(collected.returns)
    for (messages, value), count in conversations.items():
        collected.transcripts[messages, labels[value]] += count
    log.info(
        "random play through the agent: episodes=%d replies=%d left_out=%d",
        collected.num_episodes, collected.num_decisions, collected.num_left_out,
    )  # fmt: skip
    return collected


def _add(
    one: _Played, collected: CollectedPlay, conversations: Counter[tuple[tuple[ShownMessage, ...], float]]
) -> None:
    trajectory, model = one
    if not trajectory.valid:
        collected.num_left_out += 1
        if collected.num_left_out == 1:
            log.warning("an episode of random play is left out, as others may be: %s", trajectory.reason)
        if collected.num_left_out >= MAX_FAILURES and not collected.returns:
            raise ConfigError(_failed(collected.num_left_out, trajectory))
        return
    value = float(trajectory.game_return or 0.0)
    collected.returns[value] += 1
    collected.num_decisions += model.num_replies
    collected.num_rewards += trajectory.game_return is not None
    collected.best_return = max(collected.best_return, value)
    conversations.update((messages, value) for messages in model.conversations())


def _failed(number: int, last: Trajectory) -> str:
    return f"agent: {number} episodes of random play have failed, and none has ended. The last: {last.reason}"
