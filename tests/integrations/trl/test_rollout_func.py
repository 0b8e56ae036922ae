"""TRL's GRPOTrainer plays environments through our rollout function, and learns them."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from openenv.agents.llm.http import LLMError
from openenv.hosting.local_process import LocalServer
from openenv.hosting.server_process import free_port
from openenv.integrations.trl import (
    EpisodesFailed,
    adapt_rollout_func,
    make_rollout_func,
    reward_from_env,
)
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from tests.conftest import Serving
from tests.integrations.trl.generate_server import generate_app
from tests.integrations.trl.trainers import Recorded, episodes_per_s, tiny_model, trainer, words_tokenizer
from tests.integrations_table import Record

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

DIGITS = "zero one two three four five six seven eight nine 0 1 2 3 4 5 6 7 8 9"
BLACKJACK = (
    "You have and , hard soft The dealer shows . cards dealer hit stand win loss push A 2 3 4 5 6 7 8 9 10 J Q K play :"
)


@pytest.fixture(scope="module")
def blackjack_url():
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "blackjack"]) as server:
        yield server.base_url


def played(
    rollout_func: Callable[..., dict[str, Any]], prompts: list[Any], folder: Path, texts: str, **args: Any
) -> dict[str, Any]:
    """What the rollout function returns to a trainer with a random model."""
    tokenizer = words_tokenizer([texts])
    made = trainer(
        tiny_model(tokenizer), tokenizer, folder, prompts, rollout_func=rollout_func,
        reward_funcs=reward_from_env, args={"max_steps": 1, **args},
    )  # fmt: skip
    return rollout_func(prompts, made)


@pytest.mark.integration("TRL", "GRPOTrainer with a rollout_func on guess", package="trl")
def test_a_game_is_learned(tmp_path: Path, record_property: Record) -> None:
    tokenizer = words_tokenizer([DIGITS, "name the number"])
    recorded = Recorded(reward_from_env)
    rollout_func = make_rollout_func("guess", instructions=False, unparseable=0.0)
    made = trainer(
        tiny_model(tokenizer), tokenizer, tmp_path, ["name the number"] * 4000, rollout_func=rollout_func,
        reward_funcs=recorded, args={"max_steps": 120, "max_completion_length": 2, "per_device_train_batch_size": 256},
    )  # fmt: skip
    made.train()
    rollout_func.close()

    last = sum(recorded.means[-10:]) / 10
    record_property("figure", f"reward {recorded.means[0]:.2f} to {last:.2f}, {episodes_per_s(made):.0f} episodes/s")
    assert recorded.means[0] < 0.1
    assert last > 0.5
    assert set(recorded.received[-1]["env_outcome"]) <= {"won", "lost", "push", "unparseable"}


@pytest.mark.integration("TRL", "GRPOTrainer with a rollout_func on blackjack, several turns", package="trl")
def test_blackjack_with_several_turns_is_learned(blackjack_url: str, tmp_path: Path, record_property: Record) -> None:
    tokenizer = words_tokenizer([BLACKJACK])
    recorded = Recorded(reward_from_env)
    rollout_func = make_rollout_func(blackjack_url, instructions=False)
    made = trainer(
        tiny_model(tokenizer), tokenizer, tmp_path, ["play :"] * 4000, rollout_func=rollout_func,
        reward_funcs=recorded, args={"max_steps": 120, "max_completion_length": 2, "learning_rate": 3e-3},
    )  # fmt: skip
    made.train()
    rollout_func.close()

    first, last = (sum(part) / len(part) for part in (recorded.means[:5], recorded.means[-20:]))
    record_property("figure", f"reward {first:.2f} to {last:.2f}, {episodes_per_s(made):.0f} episodes/s")
    assert first < -0.8, "the random model names no action"
    assert last > first + 0.4
    assert max(map(max, (given["env_turns"] for given in recorded.received))) > 1


def test_members_of_a_group_begin_from_one_deal_and_groups_from_others(blackjack_url: str, tmp_path: Path) -> None:
    with_groups = make_rollout_func(blackjack_url)
    output = played(with_groups, ["play :"] * 64, tmp_path, BLACKJACK)
    with_groups.close()

    deals = [tuple(ids) for ids in output["prompt_ids"]]
    assert all(len(set(deals[start : start + 8])) == 1 for start in range(0, 64, 8))
    assert len(set(deals)) > 4


def test_what_the_environment_shows_is_masked_and_sampled_tokens_have_the_models_logprobs(
    blackjack_url: str, tmp_path: Path
) -> None:
    tokenizer = words_tokenizer([BLACKJACK])
    model = tiny_model(tokenizer)
    rollout_func = make_rollout_func(blackjack_url, instructions=False, retries=3)
    made = trainer(
        model, tokenizer, tmp_path, ["play :"] * 64, rollout_func=rollout_func, reward_funcs=reward_from_env,
        args={"max_steps": 1, "max_completion_length": 4},
    )  # fmt: skip
    output = rollout_func(["play :"] * 64, made)
    rollout_func.close()

    longest = max(range(64), key=lambda number: len(output["completion_ids"][number]))
    prompt, completion = output["prompt_ids"][longest], output["completion_ids"][longest]
    mask = output["env_mask"][longest]
    assert 0 in mask
    assert 1 in mask
    with torch.no_grad():
        logits = made.model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
    for token, (is_sampled, logprob) in enumerate(zip(mask, output["logprobs"][longest], strict=True)):
        assert logprob == (pytest.approx(expected[token].item(), abs=1e-4) if is_sampled else 0.0)


def test_a_conversational_prompt_comes_before_what_is_seen(blackjack_url: str, tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "play :"}, {"role": "user", "content": "win"}]
    rollout_func = make_rollout_func(blackjack_url, instructions=False)
    output = played(rollout_func, [prompt] * 8, tmp_path, BLACKJACK, per_device_train_batch_size=8)
    rollout_func.close()

    shown = words_tokenizer([BLACKJACK]).decode(output["prompt_ids"][0])
    assert shown.startswith("<|system|> play : <|end|> <|user|> win You have ")


@pytest.mark.finding("a client knows its process and its event loop")
async def test_episodes_are_played_in_a_notebooks_cell_where_an_event_loop_runs(
    blackjack_url: str, tmp_path: Path
) -> None:
    rollout_func = make_rollout_func(blackjack_url)
    outputs = [played(rollout_func, ["play :"] * 8, tmp_path, BLACKJACK, per_device_train_batch_size=8) for _ in "12"]
    rollout_func.close()

    assert [len(output["env_reward"]) for output in outputs] == [8, 8]


def test_a_failing_environment_is_an_error_with_its_reason(tmp_path: Path) -> None:
    broken = make_rollout_func("openspiel", reset={"game_name": "no_such_game"})
    with pytest.raises(EpisodesFailed, match="no_such_game"):
        played(broken, ["play :"] * 8, tmp_path, BLACKJACK, per_device_train_batch_size=8)
    broken.close()


@pytest.mark.finding("TRL's rollouts warn when no reply names a legal action")
def test_calls_without_a_legal_reply_are_logged_once_with_the_remedies(
    blackjack_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rollout_func = make_rollout_func(blackjack_url, instructions=False)
    tokenizer = words_tokenizer(["You have and , The dealer shows . : no word of an action"])
    made = trainer(
        tiny_model(tokenizer), tokenizer, tmp_path, ["no word"] * 4, rollout_func=rollout_func,
        reward_funcs=reward_from_env, args={"max_steps": 1},
    )  # fmt: skip

    for _ in range(5):
        rollout_func(["no word"] * 4, made)
    rollout_func.close()

    (warning,) = (record.message for record in caplog.records if "names a legal action" in record.message)
    assert "Raise max_completion_length=" in warning


def test_a_reward_function_without_the_rollout_function_is_refused() -> None:
    with pytest.raises(ValueError, match="rollout_func"):
        reward_from_env(completions=["hit"])


def test_a_function_of_the_older_contract_gets_each_prompt_once_and_its_output_reaches_the_reward(
    tmp_path: Path,
) -> None:
    seen: list[tuple[list[str], int]] = []

    def older(prompts: list[str], args: Any, processing_class: Any) -> dict[str, Any]:
        seen.append((prompts, args.num_generations))
        completions = [[processing_class.eos_token_id]] * (len(prompts) * args.num_generations)
        return {
            "prompt_ids": [processing_class.encode(prompt) for prompt in prompts],
            "completion_ids": completions,
            "logprobs": [[[-1.0]] for _ in completions],
            "env_reward": [float(number) for number in range(len(completions))],
        }

    recorded = Recorded(reward_from_env)
    tokenizer = words_tokenizer([BLACKJACK])
    made = trainer(
        tiny_model(tokenizer), tokenizer, tmp_path, ["play :"] * 8 + ["cards"] * 8,
        rollout_func=adapt_rollout_func(older), reward_funcs=recorded,
        args={"max_steps": 1, "per_device_train_batch_size": 16, "shuffle_dataset": False},
    )  # fmt: skip
    made.train()

    assert seen == [(["play :", "play :"], 8)]
    assert recorded.received[0]["env_reward"] == [float(number) for number in range(16)]


def test_an_adapted_function_is_asked_for_whole_groups_only(tmp_path: Path) -> None:
    adapted = adapt_rollout_func(lambda prompts, args, tokenizer: {"prompt_ids": [], "logprobs": []})
    with pytest.raises(ValueError, match="no whole groups of 8"):
        played(adapted, ["play :"] * 4 + ["win"] * 4, tmp_path, BLACKJACK, per_device_train_batch_size=8)
    with pytest.raises(ValueError, match="prompt_ids: the rollout function returned 0 for 1 prompts, not 1"):
        played(adapted, ["play :"] * 8, tmp_path, BLACKJACK, per_device_train_batch_size=8)


class OlderArguments(SimpleNamespace):
    """The arguments that a rollout function gets from TRL before it passed the trainer."""

    num_generations = 4
    max_completion_length = 2
    temperature = 1.0
    seed = 0
    vllm_server_host = "0.0.0.0"


def test_the_older_contract_samples_on_a_vllm_server(blackjack_url: str, serving: Serving) -> None:
    tokenizer = words_tokenizer([BLACKJACK])
    model = tiny_model(tokenizer)
    url = serving(generate_app(lambda: model, tokenizer))
    rollout_func = make_rollout_func(blackjack_url, instructions=False)
    output = rollout_func(["play :"] * 3, OlderArguments(vllm_server_port=url.rpartition(":")[2]), tokenizer)
    rollout_func.close()

    assert {len(values) for values in output.values()} == {12}, "each prompt has num_generations episodes"
    for ids, mask, logprobs in zip(output["completion_ids"], output["env_mask"], output["logprobs"], strict=True):
        assert len(ids) == len(mask) == len(logprobs)
        assert all(value < 0 for value, is_sampled in zip(logprobs, mask, strict=True) if is_sampled)


def test_a_vllm_server_that_is_not_there_is_named(blackjack_url: str) -> None:
    rollout_func = make_rollout_func(blackjack_url)
    args = OlderArguments(vllm_server_port=free_port())
    with pytest.raises(LLMError, match=rf"127\.0\.0\.1:{args.vllm_server_port}/generate/"):
        rollout_func(["play :"], args, words_tokenizer([BLACKJACK]))
    rollout_func.close()


class TrainersVllm:
    """Speaks as TRL's `vllm_generation` does, on our generator."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._generator = Generator(model, Chat(tokenizer, end_ids=[tokenizer.eos_token_id]), max_new_tokens=2)
        self.num_prompts = 0

    def generate(self, prompts: list[list[int]], images: None, num_generations: int, profiler: Any = None) -> Any:
        """Prompt ids, completion ids, and one log-probability and its token for each."""
        assert num_generations == 1
        self.num_prompts += len(prompts)
        segments = self._generator.generate(
            [tuple(p) for p in prompts], [random.Random(n) for n in range(len(prompts))]
        )
        ids = [s.token_ids[len(p) :].tolist() for s, p in zip(segments, prompts, strict=True)]
        logprobs = [
            [[value] for value in s.logprobs[len(p) :].tolist()] for s, p in zip(segments, prompts, strict=True)
        ]
        return prompts, ids, logprobs, [[[token] for token in reply] for reply in ids]


def test_a_trainer_with_vllm_samples_there(blackjack_url: str, tmp_path: Path) -> None:
    tokenizer = words_tokenizer([BLACKJACK])
    model = tiny_model(tokenizer)
    rollout_func = make_rollout_func(blackjack_url, instructions=False)
    made = trainer(model, tokenizer, tmp_path, ["play :"] * 8, rollout_func=rollout_func,
                   reward_funcs=reward_from_env, args={"max_steps": 1, "per_device_train_batch_size": 8})  # fmt: skip
    made.use_vllm, made.vllm_generation = True, TrainersVllm(model, tokenizer)
    output = rollout_func(["play :"] * 8, made)
    rollout_func.close()

    assert made.vllm_generation.num_prompts >= 8
    assert len(output["completion_ids"]) == 8
