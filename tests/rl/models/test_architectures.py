"""Generator, trainer and reference compute what each architecture's own forward computes."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2LMHeadModel

from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.generators.embedded import Generator, UnsupportedModel
from openenv.rl.models.chat import Chat
from openenv.rl.models.reply_masks import Mask, is_choice, masked
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.training.trainer import ReferenceModel, Trainer
from tests.rl.echo_game import WORDS, EchoPool, RememberingEchoText, SayAction, SeenObservation, echo_config
from tests.rl.models.small_models import ARCHITECTURES, BACKEND, DEVICES, STATEFUL, small_model, small_tokenizer

BOUND = 1e-4  # nats; float32 in matrix products of different shapes
TURNS = 8
THOUGHT = 4  # most tokens of a thought, its end included


class AnyReplyText(RememberingEchoText):
    """Takes every reply as a move, so that a model with random weights plays all turns."""

    def parse(self, reply: str, observation: SeenObservation) -> SayAction:
        return SayAction(word=str(len(reply)))

    def parse_cut_off(self, reply: str, observation: SeenObservation) -> SayAction:
        return self.parse(reply, observation)


class Concluding(Generator):
    """Ends its thoughts before a reply ends, with the log-probability of the mark."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._captured = None  # what was captured would go on before these tokens are changed

    def _sample(self, rows: Any, logprobs: torch.Tensor, masks: Any) -> None:
        contexts = [row.context for row in rows]
        super()._sample(rows, logprobs, masks)
        end = self.chat.tokenizer.convert_tokens_to_ids("</think>")
        for row, context in zip(rows, contexts, strict=True):
            text = "<think>" * self.chat.template.opens_thinking + self.chat.tokenizer.decode(row.token_ids)
            is_over = len(row.token_ids) >= THOUGHT or row.token_ids[-1] in self.chat.end_ids
            if is_over and text.rfind("<think>") > text.rfind("</think>"):
                row.token_ids[-1], row.logprobs[-1] = end, float(logprobs[context, end])


async def played(generator: Generator, config: Config) -> list[Group]:
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as executor:
        pool = EchoPool(num_sessions=6, turns=TURNS)
        rollout = Rollout(pool, AnyReplyText(), generator, EpisodeReward(), config, executor)
        return await rollout.play(range(3))


def conversation_config(**changes: Any) -> Config:
    return echo_config(
        **{
            "group_size": 2,
            "max_res_tokens": 6,
            "max_req_tokens": 900,
            "model": {"instructions": True, "precision": "float32"},
            **changes,
        }
    )


def plain_logprobs(model: Any, groups: list[Group]) -> torch.Tensor:
    """Log-probabilities of the sampled tokens from `model(input_ids)` alone, one segment at a time."""
    found = []
    with torch.no_grad():
        for segment in (s for group in groups for t in group.trajectories for s in t.segments):
            logits = model(torch.tensor([segment.token_ids.tolist()], device=model.device)).logits[0].cpu().float()
            if segment.masks:
                logits[:-1] = masked(logits[:-1], segment.masks[1:])
            table = torch.log_softmax(logits, dim=-1)
            chosen = table[:-1].gather(1, torch.tensor(segment.token_ids[1:].tolist())[:, None])[:, 0]
            found.append(chosen[torch.tensor(segment.sampled[1:])])
    return torch.cat(found)


@pytest.mark.parametrize("constrain", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*ARCHITECTURES, *STATEFUL])
async def test_generator_trainer_and_the_models_own_forward_agree_in_conversations(
    name: str, device: str, constrain: bool
) -> None:
    model, tokenizer = small_model(name, device)
    chat, config = Chat(tokenizer), conversation_config(sampling={"constrain": constrain})
    generator = Concluding(model, chat, max_new_tokens=config.max_res_tokens)
    generator.require_agreement()
    groups = await played(generator, config)
    trajectories = [t for group in groups for t in group.trajectories]
    batch = make_batch(groups, "dr_grpo", chat.pad_id)

    reference = ReferenceModel(model, "float32")
    of_reference = reference.scores(batch).logprobs[batch.position]
    of_trainer = Trainer(model, reference, config, chat.pad_id).step(groups, 0.0)

    own = plain_logprobs(reference.model, groups)
    assert all(len(t.turns) == TURNS for t in trajectories)
    if constrain:  # thinking is free
        turns = [] if chat.template.opens_thinking else [turn for t in trajectories for turn in t.turns]
        answers = {turn.reply.strip() for turn in turns if "<think>" not in turn.reply}
        assert answers <= set(WORDS)
        own = own[[is_choice(m) for t in trajectories for s in t.segments for m in sampled_masks(s)]]
    else:
        assert sum("</think>" in turn.reply for t in trajectories for turn in t.turns) >= 3
    assert (batch.generator_logprobs - own).abs().max() < BOUND
    assert (of_reference - own).abs().max() < BOUND
    assert abs(of_trainer["mismatch_kl"]) < BOUND**2 + 1e-6  # float32 rounding of exp(d) - d - 1
    assert of_trainer["kl"] < BOUND**2 + 1e-6


@pytest.mark.parametrize("device", DEVICES)
async def test_a_step_with_every_term_of_the_loss_runs_on_each_device(device: str) -> None:
    model, tokenizer = small_model("Llama", device)
    chat = Chat(tokenizer)
    config = conversation_config(
        sampling={"constrain": True},
        loss={"kl_weight": 0.1, "entropy_weight": 0.01, "entropy_floor": 0.9, "entropy_floor_end": 0.1},
        trainer={"kl_target": 0.02, "optimizer": {"lr": 1e-4}},
    )
    groups = await played(Generator(model, chat, max_new_tokens=config.max_res_tokens), config)

    metrics = Trainer(model, ReferenceModel(model, "float32"), config, chat.pad_id).step(groups, 0.0)

    assert 0 < metrics["action_entropy"] < 1
    assert metrics["step_kl"] > 0
    assert metrics["grad_norm"] > 0


def sampled_masks(segment: Segment) -> list[Mask | None]:
    pairs = zip(segment.masks or (None,) * len(segment.sampled), segment.sampled, strict=True)
    return [mask for mask, is_sampled in pairs if is_sampled]


class ForgetfulGPT2(GPT2LMHeadModel):
    """Ignores its cache."""

    def forward(self, input_ids: Any = None, past_key_values: Any = None, **others: Any) -> Any:
        return super().forward(input_ids=input_ids)


def test_a_model_that_generates_otherwise_than_it_reads_is_refused_by_its_class() -> None:
    model, tokenizer = small_model("GPT-2")
    model.__class__ = ForgetfulGPT2

    with pytest.raises(UnsupportedModel, match=r"ForgetfulGPT2 is .* nats a token away"):
        Generator(model, Chat(tokenizer), max_new_tokens=6).require_agreement()


def test_a_model_with_a_cache_of_its_own_is_refused_by_its_class() -> None:
    config = AutoConfig.for_model("rwkv", vocab_size=BACKEND.get_vocab_size(), hidden_size=16, num_hidden_layers=2)

    with pytest.raises(UnsupportedModel, match="RwkvForCausalLM keeps its state outside"):
        Generator(AutoModelForCausalLM.from_config(config), Chat(small_tokenizer("plain")), max_new_tokens=2)
