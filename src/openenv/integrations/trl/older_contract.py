"""A rollout function as TRL's guide to OpenEnv writes it, for the versions of TRL that pass their trainer to it.

Example:
    from openenv.integrations.trl import adapt_rollout_func

    trainer = GRPOTrainer(model, reward_funcs=..., rollout_func=adapt_rollout_func(rollout_func))
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

OlderRolloutFunc = Callable[[list[Any], Any, Any], Mapping[str, Any]]
"""Called with distinct prompts, the GRPOConfig, and the tokenizer or processor, as TRL 0.25 does."""
CurrentRolloutFunc = Callable[[Sequence[Any], Any], dict[str, Any]]
"""Called with the prompts of one process, each num_generations times, and the trainer."""


def adapt_rollout_func(rollout_func: OlderRolloutFunc) -> CurrentRolloutFunc:
    """A `rollout_func(prompts, trainer)` that calls a `rollout_func(prompts, args, processing_class)`.

    The older function receives each prompt once, as a text, and returns num_generations completions for each, one after
    another. Log-probabilities may be lists of one, as newer servers return them. Raises ValueError for prompts that are
    no whole groups, and for another number of completions.
    """

    def adapted(prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        distinct = list(prompts[::size])
        if [prompt for prompt in distinct for _ in range(size)] != list(prompts):
            raise ValueError(
                f"the {len(prompts)} prompts of this process are no whole groups of {size}: set "
                "per_device_train_batch_size * gradient_accumulation_steps to a multiple of num_generations"
            )
        args = copy.copy(trainer.args)
        args.num_generations = size
        texts = [_text(prompt, trainer) for prompt in distinct]
        output = dict(rollout_func(texts, args, trainer.processing_class))
        _require_rows(output, len(distinct), size)
        output["prompt_ids"] = [ids for ids in output["prompt_ids"] for _ in range(size)]
        output["logprobs"] = [[_sampled(value) for value in values] for values in output["logprobs"]]
        return output

    return adapted


def _require_rows(output: Mapping[str, Any], num_prompts: int, size: int) -> None:
    """Raise ValueError unless `prompt_ids` has a row for each prompt, and all else one for each completion."""
    for name, values in output.items():
        wanted = num_prompts if name == "prompt_ids" else num_prompts * size
        if isinstance(values, list) and len(values) != wanted:
            raise ValueError(
                f"{name}: the rollout function returned {len(values)} for {num_prompts} prompts, not {wanted}"
            )


def _text(prompt: Any, trainer: Any) -> str:
    """The text of a prompt, of its messages by the chat template."""
    if isinstance(prompt, str):
        return prompt
    text: str = trainer.processing_class.apply_chat_template(
        prompt, tokenize=False, add_generation_prompt=True, **trainer.chat_template_kwargs
    )
    return text


def _sampled(value: float | Sequence[float]) -> float:
    """The log-probability of the sampled token, alone or first in a list."""
    return float(value[0]) if isinstance(value, Sequence) else float(value)
