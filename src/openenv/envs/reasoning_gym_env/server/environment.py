"""The reasoning-gym environment."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.reasoning_gym_env.models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
from openenv.envs.reasoning_gym_env.server.library_process import LIBRARY, LibraryEnded
from openenv.formats.json_text import json_text
from openenv.hosting.serving.settings import option

_SEED_BITS = 31
_SEEDS = 1 << 32
"""numpy takes seeds below this one."""
_LONGEST_SETTINGS = 5_000


@dataclass(frozen=True, kw_only=True)
class TaskChoice:
    """Which tasks are given. Raises ValueError, naming the field, for a value of a wrong type."""

    dataset: str = option("chain_sum", "Ask questions of this dataset")
    level: int | None = option(None, "Use this level of its curriculum", unset="the dataset's settings")
    settings: dict[str, Any] = option(
        {}, "Its settings as a JSON object, which replace those of the level", metavar='{"max_terms": 3}'
    )

    def __post_init__(self) -> None:
        if not isinstance(self.dataset, str):
            raise ValueError(f"dataset={self.dataset!r:.80}: expected the name of a dataset, such as 'chain_sum'.")
        if self.level is not None and (not isinstance(self.level, int) or isinstance(self.level, bool)):
            raise ValueError(f"level={self.level!r:.80}: expected a whole number from 0.")
        if not isinstance(self.settings, dict) or len(json_text(self.settings)) > _LONGEST_SETTINGS:
            raise ValueError(
                f"settings={str(self.settings)[:80]!r}: expected an object of at most {_LONGEST_SETTINGS} characters, "
                "such as {'min_terms': 2}."
            )


@dataclass
class _Episode:
    choice: TaskChoice
    seed: int
    episode_id: str
    question: str
    step_count: int = 0


class ReasoningGymEnvironment(Environment[ReasoningGymAction, ReasoningGymObservation, ReasoningGymState]):
    """One question, one answer. The reward is the score of the dataset's own scorer, from 0 to 1."""

    execution = "thread"  # it waits for the library's process
    success_return = 1.0

    def __init__(self, dataset: str = "chain_sum", level: int | None = None, settings: Any = None) -> None:
        """The defaults of `reset`. Raises ValueError for a value of a wrong type."""
        self._default = TaskChoice(dataset=dataset, level=level, settings=settings or {})
        self._episode: _Episode | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ReasoningGymObservation:
        """Ask the question of a seed.

        dataset, level, settings: replace the server's for this episode; another dataset than the server's starts from
        its own defaults. Raises ValueError for a wrong one, and for settings whose task takes too much time or memory.
        The current episode then continues.
        """
        choice = _chosen(kwargs, self._default)
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        try:
            task = LIBRARY.request(**asdict(choice), seed=seed % _SEEDS)
        except LibraryEnded:
            raise ValueError(
                f"settings={json_text(choice.settings)[:200]}, level={choice.level} of {choice.dataset}: the task "
                "took too much time or memory. Choose a lower level or smaller settings."
            ) from None
        self._episode = _Episode(choice, seed, episode_id or str(uuid4()), task["question"])
        return ReasoningGymObservation(question=task["question"], dataset=choice.dataset, metadata={"seed": seed})

    def step(
        self, action: ReasoningGymAction, timeout_s: float | None = None, **kwargs: Any
    ) -> ReasoningGymObservation:
        """Score the answer. One that the scorer cannot read, or not in time, scores 0."""
        episode = self._started()
        asked = {**asdict(episode.choice), "seed": episode.seed % _SEEDS}
        try:
            scored = LIBRARY.request(**asked, answer=action.answer)
        except LibraryEnded:
            scored = {"score": 0.0, "reference": None}
        episode.step_count += 1
        return ReasoningGymObservation(
            question=episode.question,
            dataset=episode.choice.dataset,
            reference_answer=scored["reference"],
            done=True,
            reward=scored["score"],
        )

    def save_state(self) -> bytes:
        """The choice, the seed and the question. Raises ValueError before the first reset."""
        return json_text(asdict(self._started())).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        saved = json.loads(snapshot)
        self._episode = _Episode(**{**saved, "choice": TaskChoice(**saved["choice"])})

    @property
    def state(self) -> ReasoningGymState:
        """What the episode asks, and whether it was answered."""
        episode = self._episode
        if episode is None:
            return ReasoningGymState(**asdict(self._default))
        return ReasoningGymState(
            episode_id=episode.episode_id, step_count=episode.step_count, seed=episode.seed, **asdict(episode.choice)
        )

    def _started(self) -> _Episode:
        if self._episode is None:
            raise ValueError("there is no episode yet. Call reset() first.")
        return self._episode


def _chosen(keywords: Mapping[str, Any], default: TaskChoice) -> TaskChoice:
    """The choice of a reset. Raises ValueError for an unknown keyword or a value of a wrong type."""
    known = list(asdict(default))
    for name in keywords:
        if name not in known:
            raise ValueError(f"reset argument {name!r:.80} is not known. Known: seed, episode_id, {', '.join(known)}.")
    given = {name: value for name, value in keywords.items() if value is not None}
    if given.get("dataset", default.dataset) != default.dataset:
        return TaskChoice(**given)
    return TaskChoice(**{**asdict(default), **given})
