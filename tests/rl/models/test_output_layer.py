"""An output layer in float32: closer log-probabilities, the same weights, also in copies and generators."""

import copy
import random

import pytest
import torch

from openenv.rl.config import ConfigError, Precision
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.devices import autocast
from openenv.rl.models.language_model import cast_matrices
from openenv.rl.models.output_layer import compute_output_in_float32
from openenv.rl.training.trainer import ReferenceModel
from tests.rl.echo_game import echo_chat, echo_config, echo_generator
from tests.rl.generators.test_embedded import batch_of, prompts


def logits_of(model: torch.nn.Module, precision: Precision) -> torch.Tensor:
    with autocast(precision, torch.device("cpu")), torch.no_grad():
        return model(torch.tensor([[1, 2, 3, 4]])).logits


def test_only_the_output_layer_computes_in_float32() -> None:
    model = echo_generator(echo_config(), echo_chat(), sharpness=4.0).model
    names, before = [name for name, _ in model.named_parameters()], logits_of(model, "bfloat16")

    compute_output_in_float32(model)

    for one in (model, copy.deepcopy(model)):
        logits = logits_of(one, "bfloat16")
        assert (before.dtype, logits.dtype) == (torch.bfloat16, torch.float32)
        assert not torch.equal(logits, logits.bfloat16().float())  # the layers before it are in bfloat16
        torch.testing.assert_close(logits, before.float(), atol=0.1, rtol=0.1)
        assert torch.equal(logits_of(one, "float32"), logits_of(one, "float32").float())
    assert [name for name, _ in model.named_parameters()] == names


def test_a_generator_keeps_the_matrix_of_that_layer_and_agrees_with_the_trainer() -> None:
    chat = echo_chat()
    model = echo_generator(echo_config(max_res_tokens=5), chat, sharpness=4.0).model
    compute_output_in_float32(model)
    once = copy.deepcopy(model)
    cast_matrices(once, "bfloat16")
    generator = Generator(once, chat, max_new_tokens=5, precision="bfloat16")

    batch = batch_of(generator.generate(prompts(chat, 64), [random.Random(n) for n in range(64)]), chat.pad_id)
    of_trainer = ReferenceModel(model, "bfloat16").scores(batch).logprobs[batch.position]

    assert once.get_output_embeddings().weight.dtype == torch.float32
    assert (of_trainer - batch.generator_logprobs).abs().max() < 1e-2


def test_another_kind_of_output_layer_is_refused() -> None:
    model = echo_generator(echo_config(), echo_chat(), sharpness=4.0).model
    model.set_output_embeddings(torch.nn.Bilinear(2, 2, 2))

    with pytest.raises(ConfigError, match=r"model\.float32_output: the output layer of Qwen3ForCausalLM is a Bilinear"):
        compute_output_in_float32(model)
