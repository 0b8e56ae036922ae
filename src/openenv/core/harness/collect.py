"""Collects episodes as JSON lines, for data sets of conversations."""

import itertools
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness.rollout import (
    HarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    ModelStep,
    ModelStepResult,
    verified,
)
from openenv.core.harness.sessions import Message, ResourceSessionFactory, VerifyResult
from openenv.core.llm_client import LLMClient
from openenv.core.utils import run_async_safely

log = logging.getLogger(__name__)

RESULTS_FILENAME = "results.jsonl"
METADATA_FILENAME = "metadata.json"
README_FILENAME = "README.md"


@dataclass
class EpisodeRecord:
    """One line of the data set."""

    episode_id: str
    messages: list[dict[str, Any]]
    reward: float
    done: bool
    tool_trace: list[dict[str, Any]]
    metrics: dict[str, Any]
    verify_metrics: dict[str, Any]
    artifacts: dict[str, Any]
    task: Any = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_rollout(
        cls,
        episode_id: str,
        rollout: HarnessRolloutResult,
        verify: VerifyResult,
        task: Any = None,
        extra: dict[str, Any] | None = None,
    ) -> "EpisodeRecord":
        """The record of an episode and its verdict. Raises ValueError for a verdict without a reward."""
        if verify.env_reward is None:
            raise ValueError(f"episode {episode_id}: the session's verify() returned no env_reward")
        return cls(
            episode_id=episode_id, messages=rollout.messages, reward=float(verify.env_reward),
            done=rollout.done or verify.done, tool_trace=[asdict(entry) for entry in rollout.tool_trace],
            metrics=rollout.metrics, verify_metrics=verify.metrics, artifacts=verify.artifacts, task=task,
            extra=extra or {},
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values; an object that is none becomes its text."""
        values: dict[str, Any] = to_jsonable_python(asdict(self), fallback=str)
        return values


class RolloutSerializer:
    """Writes episodes to a folder, one line each. The folder is made at the first of them."""

    def __init__(self, output_dir: Path | str) -> None:
        self._folder = Path(output_dir)

    @property
    def output_dir(self) -> Path:
        """The folder."""
        return self._folder

    @property
    def results_path(self) -> Path:
        """The file of the episodes."""
        return self._folder / RESULTS_FILENAME

    @property
    def metadata_path(self) -> Path:
        """The file about the whole."""
        return self._folder / METADATA_FILENAME

    def write_episode(self, record: EpisodeRecord) -> None:
        """Append an episode."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.results_path.open("a", encoding="utf-8") as results:
            results.write(json.dumps(record.to_dict()) + "\n")

    def write_metadata(self, metadata: dict[str, Any]) -> None:
        """Write the file about the whole again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.metadata_path.write_text(json.dumps(metadata, indent=2, default=str) + "\n", encoding="utf-8")

    def collected_episode_ids(self) -> set[str]:
        """The episodes that are in the file. Raises ValueError for a line that is none."""
        if not self.results_path.is_file():
            return set()
        ids = set()
        for number, line in enumerate(self.results_path.read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip():
                try:
                    ids.add(str(json.loads(line)["episode_id"]))
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{self.results_path}, line {number} is no episode ({error}): remove it, or take another folder"
                    ) from error
        return ids


@dataclass
class CollectResult:
    """What one run collected."""

    num_collected: int
    num_skipped: int
    """Episodes that were in the file already."""
    num_dropped: int
    """Episodes that `should_keep` refused."""
    num_failed: int
    """Episodes that ended with an error, which the log has."""
    episode_ids: list[str]
    """All episodes of the run, in order."""
    avg_reward: float
    """Of the collected ones; 0 without any."""
    success_rate: float
    """The share of the collected ones with a reward above 0; 0 without any."""


class CollectRunner:
    """Plays episodes and appends them to a file. A run that was interrupted continues where it was."""

    def __init__(
        self,
        *,
        session_factory: ResourceSessionFactory[Any],
        harness_adapter: HarnessAdapter,
        serializer: RolloutSerializer,
        tasks: Iterable[Any] | None = None,
        limits: HarnessRunLimits | None = None,
    ) -> None:
        """tasks: of the first episodes, in order; episodes beyond them have the task None."""
        self._factory = session_factory
        self._adapter = harness_adapter
        self._serializer = serializer
        self._tasks = list(tasks) if tasks is not None else []
        self._limits = limits

    def run(
        self,
        *,
        model_step: ModelStep,
        num_episodes: int,
        episode_id_prefix: str = "ep",
        resume: bool = True,
        should_keep: Callable[[EpisodeRecord], bool] | None = None,
    ) -> CollectResult:
        """Play `num_episodes` episodes, less those that are in the file.

        resume: whether episodes in the file count. should_keep: whether to write an episode; None: all. Raises
        ValueError for a file that cannot be continued.
        """
        known = self._serializer.collected_episode_ids() if resume else set()
        result = CollectResult(0, 0, 0, 0, [], 0.0, 0.0)
        rewards: list[float] = []
        tasks = itertools.chain(self._tasks, itertools.repeat(None))
        for number, task in zip(range(num_episodes), tasks, strict=False):
            episode_id = f"{episode_id_prefix}-{number:06d}"
            result.episode_ids.append(episode_id)
            if episode_id in known:
                result.num_skipped += 1
                continue
            try:
                record = self._play(episode_id, task, model_step)
            except Exception:  # border: one episode that fails does not end the run
                log.exception("episode %s failed", episode_id)
                result.num_failed += 1
                continue
            if should_keep is not None and not should_keep(record):
                result.num_dropped += 1
                continue
            self._serializer.write_episode(record)
            rewards.append(record.reward)
        result.num_collected = len(rewards)
        if rewards:
            result.avg_reward = sum(rewards) / len(rewards)
            result.success_rate = sum(reward > 0 for reward in rewards) / len(rewards)
        return result

    def _play(self, episode_id: str, task: Any, model_step: ModelStep) -> EpisodeRecord:
        session = self._factory.create(task=task, episode_id=episode_id)
        try:
            rollout = self._adapter.run_white_box(model_step, session, self._limits)
            return EpisodeRecord.from_rollout(episode_id, rollout, verified(session, rollout), task=task)
        finally:
            session.close()


def build_model_step(llm_client: LLMClient, *, system_prompt: str | None = None) -> ModelStep:
    """A model step that sends the conversation to a language model's service.

    system_prompt: put in front of a conversation without a system message.
    """

    def step(messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
        has_system = any(message.get("role") == "system" for message in messages)
        if system_prompt is not None and not has_system:
            messages = [{"role": "system", "content": system_prompt}, *messages]
        described = [{"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
                     for tool in tools]  # fmt: skip
        return ModelStepResult(run_async_safely(llm_client.complete_with_tools(messages, described, **sampling)))

    return step


def build_dataset_readme(output_dir: Path) -> str:
    """The page of a collected data set for the Hugging Face Hub, which takes the episodes alone as data."""
    count = len(RolloutSerializer(output_dir).collected_episode_ids())
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: "{RESULTS_FILENAME}"
---

# Episodes of an OpenEnv environment

{count} episodes, one for each line of `{RESULTS_FILENAME}`: `messages`, `reward`, `done`, `tool_trace`, `task`, and
what the environment measured.
"""


def push_to_hf_hub(
    output_dir: Path | str,
    repo_id: str,
    *,
    private: bool = False,
    commit_message: str | None = None,
    token: str | None = None,
) -> str:
    """Upload a collected data set to the Hugging Face Hub, and return the URL of its page.

    repo_id: `owner/name`. token: None for the one that is stored on this machine. Raises FileNotFoundError without
    episodes, ImportError where huggingface_hub is not installed, and what that library raises.
    """
    folder = Path(output_dir)
    if not (folder / RESULTS_FILENAME).is_file():
        raise FileNotFoundError(f"{folder} has no {RESULTS_FILENAME}: collect episodes first")
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ImportError("push_to_hf_hub needs huggingface_hub: pip install huggingface_hub") from error
    (folder / README_FILENAME).write_text(build_dataset_readme(folder), encoding="utf-8")
    hub = HfApi(token=token)
    hub.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
    names = [RESULTS_FILENAME, METADATA_FILENAME, README_FILENAME]
    hub.upload_folder(
        folder_path=folder, repo_id=repo_id, repo_type="dataset", allow_patterns=names,
        commit_message=commit_message or "Add collected episodes",
    )  # fmt: skip
    return f"https://huggingface.co/datasets/{repo_id}"
