"""What is played, and how: environments, replies and conversations."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from openenv.policies.conversations import OutOfTokens, ReplyRules
from openenv.rl.config.rules import require
from openenv.text.interface import History


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """Levels of difficulty that follow the success rate of training."""

    levels: list[dict[str, Any]] = field(default_factory=list)
    """Keywords of resets at each level, the easiest first. They are added to `reset`."""
    raise_at: float = 0.8
    """Success rate at or above which the next level follows."""
    lower_at: float = 0.2
    """Success rate at or below which the level before follows."""
    episodes: int = 400
    """Episodes at a level after which its success rate is looked at."""

    def __post_init__(self) -> None:
        require(len(self.levels) >= 2, "env.curriculum.levels", self.levels, "must have two levels or more.")
        require(self.episodes >= 1, "env.curriculum.episodes", self.episodes, "must be at least 1.")
        rates, rule = (self.lower_at, self.raise_at), "must be rates between 0 and 1, lower_at below raise_at."
        require(0 <= rates[0] < rates[1] <= 1, "env.curriculum.lower_at, raise_at", rates, rule)


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig:
    """An earlier version of the policy plays the other seats. Seats take turns group by group as the trained one."""

    refresh: int = 20
    """Steps after which the opponents become the newest version."""

    def __post_init__(self) -> None:
        require(self.refresh >= 1, "env.self_play.refresh", self.refresh, "must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """An environment of the run."""

    name: str = "openspiel"
    """The environment: a name of `openenv envs`, a folder with openenv.yaml, MODULE:CLASS, FILE.py:CLASS, the URL of a
    server, or docker:IMAGE. A URL is only reached; for all others the run starts and stops a server."""
    server_url: str = ""
    """URL of a running server of the named environment, such as http://localhost:8004."""
    replicas: int = 1
    """Servers of the environment that the run starts, each a process. They share the sessions, and one that ends is
    started again. A server at a URL and one of an image have none."""
    text: str = ""
    """A text interface, MODULE:CLASS or FILE.py:CLASS, that replaces the environment's own."""
    reset: dict[str, Any] = field(default_factory=dict)
    """Keywords of every reset, such as `game_name: blackjack`. The seed is added."""
    success_return: float | None = None
    """The return from which an episode is a success, which rates and curricula count. None: what the environment
    declares; one that declares nothing has a mean return and no win rate."""
    answers_within_s: float = 45.0
    """Seconds in which its server answers a question about its health. One that the run has started is ended where it
    does not, and begins again. Raise it for code that holds the interpreter for longer."""
    weight: float = 1.0
    """Share of the groups that the environment plays, beside the weights of the others."""
    curriculum: CurriculumConfig | None = None
    """Levels of difficulty. The evaluation plays the last one. None: `reset` is the only level."""
    self_play: SelfPlayConfig | None = None
    """Train against earlier versions of the policy, in an environment that lets one session act for every seat
    (`agent_player: all`). The evaluation plays against the opponents of `reset`."""

    def __post_init__(self) -> None:
        require(self.replicas >= 1, "env.replicas", self.replicas, "must be at least 1.")
        rule = f"the run starts no servers beside {self.server_url}. Leave one of env.replicas and env.server_url out."
        require(self.replicas == 1 or not self.server_url, "env.replicas", self.replicas, rule)
        known = self.success_return
        require(known is None or math.isfinite(known), "env.success_return", known, "must be a finite number.")
        within = self.answers_within_s
        require(within > 0, "env.answers_within_s", within, "must be above 0. .inf: it is never ended.")
        require(self.weight > 0, "env.weight", self.weight, "must be above 0. Leave the environment out.")


@dataclass(frozen=True, kw_only=True)
class AgentSandboxConfig:
    """A sandbox for each run of an agent's command. It has no network but the endpoint, and no variables of the run."""

    packages: list[str] = field(default_factory=list)
    """Installed Python packages that it may import, such as `openai`. What they require is added."""
    readable: list[str] = field(default_factory=list)
    """Files and folders that it may read, beside the files that the command names and those of the system."""
    memory_mb: int = 1024
    """Memory of all its processes and files, in MiB."""

    def __post_init__(self) -> None:
        require(self.memory_mb >= 16, "agent.sandbox.memory_mb", self.memory_mb, "must be at least 16.")


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """A program that plays. It calls the model as it likes, and the environment's functions by MCP.

    Exactly one of `function` and `command` is given.
    """

    function: str = ""
    """MODULE:FUNCTION or FILE.py:FUNCTION. It receives an `openenv.rl.agents.program.AgentTask`, in a thread unless it
    is a coroutine function."""
    command: list[str] = field(default_factory=list)
    """A process for each episode, which finds what it needs in environment variables."""
    sandbox: AgentSandboxConfig | None = None
    """Where the command runs. None: as any program of this user. It needs bubblewrap."""
    time_limit_s: float = 600.0
    """Seconds after which an episode is stopped. Its rewards so far count."""
    at_once: int = 16
    """Episodes that are played at the same time."""
    random_episodes: int = 64
    """Episodes of random play that it plays first. They show whether it works, and how long its prompts are; the tiny
    model has their words, and is pretrained on them beside the random play of the environment alone."""
    tool_choice: Literal["auto", "required"] = "auto"
    """What the model's replies to a request with functions may be. auto: what the program asks. required: calls alone,
    until the episode has ended, so that a small model plays. Both need a loaded model."""

    def __post_init__(self) -> None:
        require(self.time_limit_s > 0, "agent.time_limit_s", self.time_limit_s, "must be above 0.")
        require(self.at_once >= 1, "agent.at_once", self.at_once, "must be at least 1.")
        require(self.random_episodes >= 1, "agent.random_episodes", self.random_episodes, "must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How replies are drawn."""

    constrain: bool = False
    """Whether a reply is limited to the legal replies, or to the JSON of an action, so that the first one is legal.
    Thinking stays free before its end mark, and so do replies that are free text. true with `model.path`."""
    together: bool | None = None
    """Whether the generator is asked when all running episodes of a rollout wait for a reply, so that runs with equal
    seeds add the same numbers in the same order. false: none waits for another, and a slow environment or a long reply
    stops no other episode. None: true, but false with vLLM or partial_rollouts."""
    partial_rollouts: bool = False
    """Whether rollouts take the newest weights that there are: an episode goes on across an update, with vLLM even a
    reply, and the episodes of the next steps begin in sessions that are free. Each token has the version that sampled
    it. false: one version plays a step, so that a run does not depend on how fast anything is."""
    tokens_at_once: int | None = None
    """Most tokens, of prompts with their replies, whose keys and values the generator holds at the same time. More
    prompts are answered one part after another. None: all for the tiny model, and what fits for a loaded one."""

    def __post_init__(self) -> None:
        most = self.tokens_at_once
        require(most is None or most >= 1, "sampling.tokens_at_once", most, "must be at least 1.")
        rule = "episodes of several steps cannot wait for each other. Leave it out with sampling.partial_rollouts."
        require(not (self.partial_rollouts and self.together), "sampling.together", self.together, rule)


@dataclass(frozen=True, kw_only=True)
class ConversationConfig:
    """The conversation of an episode between environment and model."""

    history: History | None = None
    """Turns that a prompt shows. full: the whole episode, one context that grows. latest: the newest observation alone.
    None: as the text interface has it, and where that leaves it open, what fits (`openenv.rl.shown_history`)."""
    retries: int = 0
    """Further replies to one observation after a reply that names no legal action. The model is shown the problem. 0:
    such a reply ends the episode."""
    max_turns: int = 1000
    """Actions after which an episode is stopped. Its rewards so far count."""
    max_episode_tokens: int | None = None
    """Tokens sampled in an episode after which no reply begins. None: no limit."""
    out_of_tokens: OutOfTokens = "fail"
    """What happens when an episode has max_episode_tokens, or a prompt is longer than max_req_tokens. fail: the episode
    ends as one with an unparseable reply. end: it ends, and its rewards so far count. forget: prompts lose their oldest
    turns until they fit; where that is not enough, as fail."""

    def __post_init__(self) -> None:
        require(self.retries >= 0, "conversation.retries", self.retries, "must be at least 0.")
        require(self.max_turns >= 1, "conversation.max_turns", self.max_turns, "must be at least 1.")
        most = self.max_episode_tokens
        require(most is None or most >= 1, "conversation.max_episode_tokens", most, "must be at least 1.")

    @property
    def rules(self) -> ReplyRules:
        """The rules of replies and tokens."""
        return ReplyRules(
            retries=self.retries, max_episode_tokens=self.max_episode_tokens, out_of_tokens=self.out_of_tokens
        )
