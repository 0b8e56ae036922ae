"""Collects episodes as JSON lines, for data sets of conversations."""

import asyncio
import functools
import itertools
import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openenv.agents.episode_records import METADATA_FILENAME as METADATA_FILENAME
from openenv.agents.episode_records import RESULTS_FILENAME as RESULTS_FILENAME
from openenv.agents.episode_records import EpisodeRecord as EpisodeRecord
from openenv.agents.episode_records import RolloutSerializer as RolloutSerializer
from openenv.agents.llm.client import LLMClient
from openenv.agents.rollout import HarnessAdapter, HarnessRunLimits, ModelStep, ModelStepResult, verdict_on
from openenv.agents.sessions import Message, ResourceSessionFactory, tool_definition
from openenv.core.env_server.mcp_types import Tool

log = logging.getLogger(__name__)

README_FILENAME = "README.md"

_SAMPLING_KEYS = frozenset({"temperature", "max_tokens", "top_p"})
_START_LOOP = threading.Lock()


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
        """tasks: one is taken for each episode, also for one that is in the file already; episodes beyond them have
        the task None. A second run continues with the tasks after those of the first."""
        self._factory = session_factory
        self._adapter = harness_adapter
        self._serializer = serializer
        self._tasks = itertools.chain(() if tasks is None else tasks, itertools.repeat(None))
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

        resume: whether to continue the file; if False, the file is renamed to `results.TIME.bak.jsonl` with a
        RuntimeWarning, and another is begun. should_keep: whether to write an episode; None: all. Raises ValueError
        for a file that cannot be continued.
        """
        if not resume:
            _set_aside(self._serializer.results_path)
        known = self._serializer.collected_episode_ids()
        result = CollectResult(0, 0, 0, 0, [], 0.0, 0.0)
        rewards: list[float] = []
        for number in range(num_episodes):
            task = next(self._tasks)
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
            rollout = self._adapter.run_white_box(model_step=model_step, session=session, limits=self._limits)
            return EpisodeRecord.from_rollout(episode_id, rollout, verdict_on(rollout, session), task=task)
        finally:
            session.close()


def _set_aside(results: Path) -> None:
    """Rename a file of episodes, if there is one, to a name that is free."""
    if not results.exists():
        return
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = itertools.chain([time], (f"{time}.{number}" for number in itertools.count(1)))
    backups = (results.with_name(f"{results.stem}.{name}.bak{results.suffix}") for name in names)
    backup = next(path for path in backups if not path.exists())
    results.rename(backup)
    warnings.warn(f"resume=False: the episodes collected before are now in {backup}", RuntimeWarning, stacklevel=3)


def build_model_step(llm_client: LLMClient, *, system_prompt: str | None = None) -> ModelStep:
    """A model step that sends the conversation to a language model's service.

    system_prompt: put in front of a conversation without a system message. Of the sampling parameters, `temperature`,
    `max_tokens` and `top_p` are sent; others are left out with a RuntimeWarning.
    """

    def step(messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
        has_system = any(message.get("role") == "system" for message in messages)
        prompt = [{"role": "system", "content": system_prompt}] if system_prompt and not has_system else []
        unknown = sampling.keys() - _SAMPLING_KEYS
        if unknown:
            warnings.warn(f"sampling: {', '.join(sorted(unknown))} is not sent to the model", RuntimeWarning, 2)
        request = llm_client.complete_with_tools(
            messages=[*prompt, *messages],
            tools=[tool_definition(tool) for tool in tools],
            **{key: value for key, value in sampling.items() if key in _SAMPLING_KEYS},
        )
        with _START_LOOP:
            loop = _model_loop()
        return ModelStepResult(asyncio.run_coroutine_threadsafe(request, loop).result())

    return step


@functools.cache
def _model_loop() -> asyncio.AbstractEventLoop:
    """The event loop of all requests to models. A client's open connections belong to the loop of its first request."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests to models", daemon=True).start()
    return loop


def build_dataset_readme(output_dir: Path) -> str:
    """The page of a collected data set for the Hugging Face Hub, which takes the episodes alone as data.

    It shows the values of the file about the whole, if there is one.
    """
    files = RolloutSerializer(output_dir)
    metadata = json.loads(files.metadata_path.read_text(encoding="utf-8")) if files.metadata_path.is_file() else {}
    rows = "".join(f"| `{key}` | `{value}` |\n" for key, value in metadata.items())
    table = f"\n| of the run | |\n| --- | --- |\n{rows}" if rows else ""
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: "{RESULTS_FILENAME}"
---

# Episodes of an OpenEnv environment

{_count_lines(files.results_path)} episodes, one for each line of `{RESULTS_FILENAME}`: `messages`, `reward`, `done`,
`tool_trace`, `task`, and what the environment measured.
{table}"""


def _count_lines(results: Path) -> int:
    if not results.is_file():
        return 0
    with results.open("rb") as lines:
        return sum(bool(line.strip()) for line in lines)


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
        commit_message=commit_message or f"Add {_count_lines(folder / RESULTS_FILENAME)} collected episodes",
    )  # fmt: skip
    return f"{hub.endpoint}/datasets/{repo_id}"
