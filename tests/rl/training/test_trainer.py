"""What the trainer does with less: no reference model, activations computed again, an adapter."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import Config, ConfigError, LoraSettings
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from openenv.rl.models.devices import device_of
from openenv.rl.models.language_model import checkpoint_activations, copy_of, load_model
from openenv.rl.models.lora import add_adapter, load_adapter
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.progress import TrainingProgress
from openenv.rl.training.checkpoint import Checkpoints, save_model
from openenv.rl.training.trainer import ReferenceModel, Trainer, make_reference
from tests.rl.echo_game import echo_config
from tests.rl.models.small_models import small_model

NO_DIVERGENCE = {"kl_weight": 0.0, "kl_weight_end": 0.0}


def groups_of(model: PreTrainedModel, chat: Chat) -> list[Group]:
    prompts = [chat.prompt([{"role": "user", "content": word}]) for word in ("red", "green", "blue") for _ in range(4)]
    segments = Generator(model, chat, max_new_tokens=4).generate(prompts, list(map(random.Random, range(12))))
    played = [
        Trajectory(seed=0, segments=[segment], outcome="won", reward=float(number % 3))
        for number, segment in enumerate(segments)
    ]
    return [Group(number, played[4 * number : 4 * number + 4]) for number in range(3)]


def trained(config: Config, name: str = "Qwen3", *, settings: LoraSettings | None = None, steps: int = 1) -> Trainer:
    model, tokenizer = small_model(name)
    chat = Chat(tokenizer)
    groups = groups_of(model, chat)
    if settings:
        add_adapter(model, settings, "somewhere")
    trainer = Trainer(model, make_reference(model, config), config, chat.pad_id)
    for _ in range(steps):
        trainer.step(groups, 0.0)
    return trainer


def count_forwards(model: PreTrainedModel) -> list[int]:
    counted: list[int] = []
    model.register_forward_pre_hook(lambda _model, _inputs: counted.append(1))
    return counted


def test_with_ages_of_tokens_old_ones_change_nothing_and_those_of_the_current_weights_do() -> None:
    config = echo_config(
        loss=NO_DIVERGENCE,
        sampling={"partial_rollouts": True},
        replay_buffer={"batch_size": 4, "age_of": "token", "max_policy_age": 0},
    )
    model, tokenizer = small_model("Qwen3")
    chat = Chat(tokenizer)
    groups = groups_of(model, chat)
    trainer = Trainer(model, None, config, chat.pad_id)
    trainer.step_count = 5
    segments = [segment for group in groups for one in group.trajectories for segment in one.segments]

    for segment in segments:
        segment.versions[:] = 4
    assert trainer.step(groups, 0.0)["grad_norm"] == 0.0
    for segment in segments:
        segment.versions[:] = 6
    assert trainer.step(groups, 0.0)["grad_norm"] > 0.0


def test_without_a_weight_of_the_divergence_there_is_no_reference_model() -> None:
    config = echo_config(loss=NO_DIVERGENCE)
    model, tokenizer = small_model("Qwen3")
    chat = Chat(tokenizer)
    groups = groups_of(model, chat)
    forwards = count_forwards(model)

    metrics = Trainer(model, make_reference(model, config), config, chat.pad_id).step(groups, 0.0)

    assert make_reference(model, config) is None
    assert len(forwards) == 1
    assert "kl" not in metrics
    assert metrics["grad_norm"] > 0


@pytest.mark.parametrize("weight", [{"kl_weight": 0.1, "kl_weight_end": 0.0}, {"kl_weight": 0.0, "kl_weight_end": 0.1}])
def test_a_weight_of_the_divergence_needs_a_reference_model(weight: dict[str, float]) -> None:
    config = echo_config(loss=weight)
    model, tokenizer = small_model("Qwen3")

    assert isinstance(make_reference(model, config), ReferenceModel)
    with pytest.raises(ValueError, match="needs a reference model"):
        Trainer(model, None, config, Chat(tokenizer).pad_id)


def test_activations_that_are_computed_again_give_the_same_gradient_without_dropout() -> None:
    def gradient(*, again: bool) -> tuple[list[Tensor], int]:
        model, tokenizer = small_model("GPT-2")  # with dropout
        chat = Chat(tokenizer)
        groups = groups_of(model, chat)
        if again:
            checkpoint_activations(model)
        forwards: list[int] = []
        model.transformer.h[0].mlp.register_forward_pre_hook(lambda _layer, _inputs: forwards.append(1))
        trainer = Trainer(model, None, echo_config(loss=NO_DIVERGENCE), chat.pad_id)
        trainer.step(groups, 0.0)
        return [weights.grad for weights in model.parameters()], len(forwards)

    (kept, once), (computed, twice) = gradient(again=False), gradient(again=True)

    assert (once, twice) == (1, 2)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(kept, computed, strict=True))


LORA = LoraSettings(rank=4)


def test_an_adapter_alone_is_trained_and_its_reference_is_the_model_without_it() -> None:
    before, tokenizer = small_model("Llama")
    chat = Chat(tokenizer)
    groups = groups_of(before, chat)
    config = echo_config()
    model, _ = small_model("Llama")
    add_adapter(model, LORA, "somewhere")
    trainer = Trainer(model, make_reference(model, config), config, chat.pad_id)

    first, second = trainer.step(groups, 0.0), trainer.step(groups, 0.0)

    assert trainer.reference is not None
    assert trainer.reference.model is model
    assert first["kl"] == pytest.approx(0.0, abs=1e-7)
    assert second["kl"] > 1e-6
    batch = make_batch(groups, "dr_grpo", chat.pad_id)
    of_base = ReferenceModel(before, "float32").scores(batch).logprobs
    assert torch.allclose(ReferenceModel(model, "float32").scores(batch).logprobs, of_base, atol=1e-5)
    frozen = dict(before.named_parameters())
    trained_names = [name for name, weights in model.named_parameters() if weights.requires_grad]
    assert all(".lora_" in name for name in trained_names)
    unchanged = {name.replace(".base_layer", ""): weights for name, weights in model.named_parameters()}
    assert all(torch.equal(weights, unchanged[name]) for name, weights in frozen.items())


def test_a_store_passes_the_adapter_alone() -> None:
    trainer = trained(echo_config(), "Llama", settings=LORA)
    reader, _ = small_model("Llama")
    add_adapter(reader, LORA, "somewhere")
    with torch.no_grad():
        reader.get_input_embeddings().weight.add_(1.0)
    embedding = reader.get_input_embeddings().weight.clone()
    store = WeightStore()

    store.publish(trainer.model, 1)
    store.load_newer(reader, than=0)

    theirs, ours = dict(reader.named_parameters()), dict(trainer.model.named_parameters())
    assert all(torch.equal(theirs[name], ours[name]) for name in ours if ".lora_" in name)
    assert torch.equal(reader.get_input_embeddings().weight, embedding)


def test_an_adapter_of_any_layer_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    settings = LoraSettings(rank=4, target_modules=["embed_tokens", "q_proj"])
    trainer = trained(echo_config(), "Llama", settings=settings, steps=2)
    save_model(tmp_path, trainer.model, Chat(small_model("Llama")[1]))
    reader, _ = small_model("Llama")
    add_adapter(reader, settings, "somewhere")

    load_adapter(reader, tmp_path)

    theirs, ours = dict(reader.named_parameters()), dict(trainer.model.named_parameters())
    adapter = [name for name in ours if ".lora_" in name]
    assert any("lora_embedding_A" in name for name in adapter)
    assert all(torch.equal(theirs[name], ours[name]) for name in adapter)


@pytest.mark.parametrize("name", ["Qwen3", "Llama"])
def test_loaded_weights_lie_where_created_ones_do(name: str, tmp_path: Path) -> None:
    """Elsewhere the matrix library adds in another order, and a resumed run would differ in its last digits."""
    model, tokenizer = small_model(name)
    for length in range(8):  # of a header, which moves what follows it
        save_model(tmp_path / str(length), model, Chat(tokenizer))
        file = tmp_path / str(length) / "model.safetensors"
        save_file(load_file(file), file, {"format": "pt", "note": "x" * length})

        loaded, _ = load_model(tmp_path / str(length))

        assert [weights.data_ptr() % 64 for weights in loaded.parameters()] == [0] * len(list(loaded.parameters()))


def logits(model: PreTrainedModel) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.train(False)(torch.tensor([[5, 6, 7, 8]])).logits
    return found


def saved_base(folder: Path, name: str) -> Path:
    model, tokenizer = small_model(name)
    model.get_output_embeddings()._forward_hooks.clear()
    model.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    return folder / "base"


def test_a_checkpoint_holds_the_adapter_and_restores_it(tmp_path: Path) -> None:
    base = saved_base(tmp_path, "Llama")
    settings = {"path": str(base), "precision": "float32", "lora": {"rank": 4}, "device": "cpu"}
    config = config_from_mapping({"name": "run", "model": settings})
    model, tokenizer = load_model(base)
    chat = Chat(tokenizer)
    assert config.model.lora is not None
    add_adapter(model, config.model.lora, str(base))
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.save_reference(model, chat, 3)
    trainer = Trainer(model, make_reference(model, config), config, chat.pad_id)
    trainer.step(groups_of(load_model(base)[0], chat), 0.0)
    folder = checkpoints.save(trainer, chat, TrainingProgress(step=1, training_s=1.0))

    restored, _, batch_size = checkpoints.load_reference(config.model)
    fresh = Trainer(restored, make_reference(restored, config), config, chat.pad_id)
    assert torch.equal(logits(restored), logits(load_model(base)[0]))
    checkpoints.restore(fresh)

    assert batch_size == 3
    assert (folder / "adapter_model.safetensors").exists()
    assert not (folder / "model.safetensors").exists()
    assert torch.equal(logits(restored), logits(model))
    by_transformers = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    assert torch.allclose(logits(by_transformers), logits(model), atol=1e-6)
    assert not torch.allclose(logits(model), logits(load_model(base)[0]), atol=1e-6)


@pytest.mark.parametrize("name", ["Gemma3", "GPT-2", "Qwen3"])
def test_a_restored_checkpoint_has_the_weights_and_keeps_the_tie_of_embeddings(tmp_path: Path, name: str) -> None:
    model, tokenizer = load_model(saved_base(tmp_path, name))
    chat, config = Chat(tokenizer), echo_config(loss=NO_DIVERGENCE)
    trainer = Trainer(model, None, config, chat.pad_id)
    trainer.step(groups_of(load_model(tmp_path / "base")[0], chat), 0.0)
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.save(trainer, chat, TrainingProgress(step=1, training_s=1.0))

    fresh = Trainer(load_model(tmp_path / "base")[0], None, config, chat.pad_id)
    assert not torch.equal(logits(fresh.model), logits(model))
    checkpoints.restore(fresh)

    assert torch.equal(logits(fresh.model), logits(model))
    is_tied = model.config.tie_word_embeddings
    assert (fresh.model.get_output_embeddings().weight is fresh.model.get_input_embeddings().weight) == is_tied


@pytest.mark.parametrize("name", ["../../other", "/elsewhere", "step_000001/../..", "..", "", "step_000001\n", "best"])
def test_a_checkpoint_is_restored_from_a_folder_of_its_own_run_alone(tmp_path: Path, name: str) -> None:
    checkpoints = Checkpoints(tmp_path / "run")
    checkpoints.folder.mkdir(parents=True)
    (checkpoints.folder / "latest").write_text(name, encoding="utf-8")

    with pytest.raises(ValueError, match="write the name of a folder beside it, such as step_000100"):
        checkpoints.latest_step  # noqa: B018


def test_a_generators_model_shares_what_the_adapter_leaves_frozen(tmp_path: Path) -> None:
    base = saved_base(tmp_path, "Llama")
    model = load_model(base)[0]
    add_adapter(model, LORA, str(base))
    copy = copy_of(model)
    before, store = logits(copy), WeightStore()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.requires_grad:
                weights.add_(0.01)

    of_copy = dict(copy.named_parameters())
    shared = {name: weights is of_copy[name] for name, weights in model.named_parameters()}
    assert all(is_shared == (".lora_" not in name) for name, is_shared in shared.items())
    assert torch.equal(logits(copy), before)
    store.publish(model, 1)
    store.load_newer(copy, 0)
    assert torch.equal(logits(copy), logits(model))
    assert not torch.equal(logits(copy), before)


def test_weights_in_bfloat16_with_an_adapter_in_float32(tmp_path: Path) -> None:
    base = saved_base(tmp_path, "Qwen3")
    model, tokenizer = load_model(base, weights="bfloat16")
    add_adapter(model, LORA, str(base))

    metrics = Trainer(model, None, echo_config(loss=NO_DIVERGENCE), Chat(tokenizer).pad_id).step(
        groups_of(load_model(base)[0], Chat(tokenizer)), 0.0
    )

    types = {(".lora_" in name, weights.dtype) for name, weights in model.named_parameters()}
    assert types == {(True, torch.float32), (False, torch.bfloat16)}
    assert metrics["grad_norm"] > 0


def test_a_device_that_is_not_there_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"model\.device='cuda:99': .* Use auto"):
        device_of("cuda:99")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto").type == "cpu"


@pytest.mark.parametrize(
    ("model", "rule"), [({"lora": {"rank": 0}, "path": "x"}, "lora.rank=0"), ({"lora": {}}, "needs model.path")]
)
def test_settings_of_an_adapter_are_checked(model: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        config_from_mapping({"model": model})
    assert config_from_mapping({"model": {"path": "x", "lora": None}}).model.lora is None
