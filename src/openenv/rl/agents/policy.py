"""An agent's program as a policy of an evaluation, with the model of a provider or of a server such as vLLM."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openenv.agents.endpoint.dialect import message_of
from openenv.agents.endpoint.requests import ModelAnswer, ModelReply, ModelRequest, RequestRefused
from openenv.agents.endpoint.server import Endpoint
from openenv.agents.endpoint.upstream import UpstreamModel
from openenv.core.client_types import StepResult
from openenv.core.errors import ServerUnreachable
from openenv.evaluation.episodes import EpisodeSessions
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import EpisodeObserver, PlaysEpisodes
from openenv.policies.base import PolicyReply
from openenv.policies.registry import EndpointOptions
from openenv.rl.agents.environment import EnvironmentEpisode, result_of
from openenv.rl.agents.kinds import agent_of
from openenv.rl.agents.program import in_sessions, run_program
from openenv.rl.config import ConfigError, ConversationConfig
from openenv.rl.config.playing import AgentConfig
from openenv.rl.config_file import load_config
from openenv.text.interface import TextInterface

_NO_LIMIT = 1_000_000


def program_policy(name: str, text: TextInterface[Any, Any], options: EndpointOptions) -> "ProgramPolicy":
    """The policy of a name on the command line.

    Args:
        name: `agent:PROGRAM@MODEL@URL`. The program is MODULE:FUNCTION, FILE.py:FUNCTION, a command with its arguments,
            or the YAML of a training run, whose `agent` it is.
        text: the environment's text interface.
        options: the key, the retries and the time limit of a reply. The program chooses the others.

    Raises:
        ValueError: for a name that is not so, a program that is not there, and a YAML without an agent.
    """
    program, *model = name.removeprefix("agent:").rsplit("@", 2)
    if not program or len(model) != 2 or not all(model):
        raise ValueError(
            f"policy={name!r}: write agent:PROGRAM@MODEL@URL, such as agent:my_agent.py:play@qwen3@http://localhost:8001/v1"
        )
    config = _config_of(program)
    upstream = UpstreamModel(model[1], model[0], options.api_key, timeout_s=options.timeout_s)
    return ProgramPolicy(f"agent:{program}@{model[0]}", config, text, upstream, retries=options.retries)


def _config_of(program: str) -> AgentConfig:
    if program.endswith((".yaml", ".yml")):
        found = load_config(program).agent
        if found is None:
            raise ConfigError(f"policy: {program} has no agent. Add `agent: MODULE:FUNCTION`, or name the program.")
        return found
    words = shlex.split(program)
    if len(words) == 1 and ":" in program and not Path(program).exists():
        return AgentConfig(function=program)
    return AgentConfig(command=words)


class ProgramPolicy(PlaysEpisodes):
    """Plays each episode by a run of the program. An episode in which the program fails is invalid."""

    def __init__(
        self, name: str, config: AgentConfig, text: TextInterface[Any, Any], model: UpstreamModel, *, retries: int = 0
    ) -> None:
        """Set the program and its model.

        Args:
            name: in tables and files.
            config: the program, its time limit and its sandbox.
            text: the environment's text interface.
            model: answers the program's calls.
            retries: calls in a row without a legal action that an episode outlives.
        """
        self.name = name
        self._agent, self._time_limit_s = agent_of(config), config.time_limit_s
        self._text, self._model, self._retries = text, model, retries

    async def play(
        self,
        pool: EpisodeSessions,
        resets: Mapping[int, Mapping[str, Any]],
        max_steps: int | None,
        observers: Sequence[EpisodeObserver],
    ) -> Mapping[int, EpisodeResult]:
        """As `PlaysEpisodes.play`. Each session plays an episode, and none waits for another.

        Raises ServerUnreachable when that is why an episode could not begin.
        """
        rules = ConversationConfig(retries=self._retries, max_turns=max_steps or _NO_LIMIT)

        async def play(numbered: tuple[int, Mapping[str, Any]], session: int) -> EpisodeResult:
            number, reset = numbered
            model = _CountedModel(self._model)
            episode = _WatchedEpisode((number, model, observers), pool, session, self._text, int(reset["seed"]), rules)
            failure = await episode.begin(reset)
            if isinstance(failure, ServerUnreachable):
                raise failure
            await run_program(self._agent, self._time_limit_s, endpoint, model, episode)
            result = result_of(episode.trajectory, **model.counts())
            for observer in observers:
                observer.on_end(number, result)
            return result

        async with Endpoint() as endpoint, self._model:
            played = await in_sessions(pool, len(pool), list(resets.items()), play)
        return dict(zip(resets, played, strict=True))


class _CountedModel:
    """The model of one episode, whose replies are counted and kept until the next action."""

    def __init__(self, model: UpstreamModel) -> None:
        self._model = model
        self._replies: list[PolicyReply] = []
        self._newest = 0
        """Replies that no action has followed yet."""
        self._is_over = False

    def stop(self) -> None:
        """The episode's time is over."""
        self._is_over = True

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """As `AnswersRequests.answer`."""
        if self._is_over:
            raise RequestRefused("the episode has been stopped")
        answer = await self._model.answer(request)
        self._replies += [_policy_reply(request, answer, reply) for reply in answer.replies]
        self._newest += len(answer.replies)
        return answer

    def take(self) -> list[PolicyReply]:
        """The replies since the last action."""
        newest, self._newest = self._newest, 0
        return self._replies[len(self._replies) - newest :]

    def counts(self) -> dict[str, int]:
        """Of all replies, by their names in `EpisodeResult`."""
        return {
            "num_replies": len(self._replies),
            "num_cut_off_replies": sum(reply.is_cut_off for reply in self._replies),
            "prompt_tokens": sum(reply.prompt_tokens for reply in self._replies),
            "completion_tokens": sum(reply.completion_tokens for reply in self._replies),
        }


class _WatchedEpisode(EnvironmentEpisode):
    """An episode that observers see, with the replies that led to each action."""

    def __init__(self, seen: tuple[int, _CountedModel, Sequence[EpisodeObserver]], *episode: Any) -> None:
        """seen: the episode's number, its model and its observers. episode: as `EnvironmentEpisode`."""
        super().__init__(*episode)
        self._number, self._model, self._observers = seen

    def on_action(self, action: Any) -> None:
        replies = self._model.take()
        for observer in self._observers:
            observer.on_replies(self._number, replies, action)

    def on_refusal(self) -> None:
        for observer in self._observers:
            observer.on_refusal(self._number)

    def on_result(self, result: StepResult[Any]) -> None:
        for observer in self._observers:
            observer.on_result(self._number, result)


def _policy_reply(request: ModelRequest, answer: ModelAnswer, reply: ModelReply) -> PolicyReply:
    """A reply as evaluations record it. Several to one request share its prompt, which is counted once."""
    return PolicyReply(
        prompt=request.messages,
        message=message_of(reply),
        names_action=True,
        is_cut_off=reply.end == "length",
        functions=[{"type": "function", "function": dict(tool)} for tool in request.tools],
        prompt_tokens=answer.num_prompt_tokens if reply is answer.replies[0] else 0,
        completion_tokens=reply.num_tokens,
    )
