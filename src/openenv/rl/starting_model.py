"""The model that a run starts from: loaded from a path, or a tiny one that is created and pretrained on random play."""

import itertools
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from openenv.rl.algorithm.curricula import shares
from openenv.rl.config import Config, ModelConfig, require
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat, chat_of, word_tokenizer
from openenv.rl.models.devices import device_of, multiplies_bfloat16
from openenv.rl.models.images import ImageReader, load_image_reader
from openenv.rl.models.language_model import dither, end_ids, load_model, tiny_model
from openenv.rl.models.lora import add_adapter
from openenv.rl.models.output_layer import compute_output_in_float32
from openenv.rl.models.sources.tiny_vision import tiny_image_reader, tiny_vision_model
from openenv.rl.shown_history import EPISODES_TO_MEASURE
from openenv.rl.training.teacher_play import CollectedPlay
from openenv.rl.training.transcripts import Transcript, chat_messages, have_images, transcript_words

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartingModel:
    """A model with what reads and writes its tokens."""

    model: PreTrainedModel
    tokenizer: Any
    image_reader: ImageReader | None
    """None: the model reads text alone."""

    def chat(self, *, enable_thinking: bool | None = None, tools: Sequence[Mapping[str, Any]] = ()) -> Chat:
        """The model's chat. Raises ChatTemplateError for a tokenizer without a usable template.

        tools: those of the environment, which a template that renders tools gets; the instructions describe them for
        any other.
        """
        ends = end_ids(self.model)
        return chat_of(self.tokenizer, ends, self.image_reader, enable_thinking=enable_thinking, tools=tools)


def make_starting_model(config: Config, played: Sequence[CollectedPlay]) -> StartingModel:
    """Load the model at `model.path`, or create one with random weights, which has to be pretrained yet."""
    start = load_starting_model(config.model, config.seed) if config.model.path else _create(config, played)
    if config.model.float32_output:
        compute_output_in_float32(start.model)
    return start


def require_room(model: PreTrainedModel, chat: Chat, played: CollectedPlay, config: Config) -> None:
    """Raise ConfigError if the first prompts of random play, or all that the limits allow, are too long for the model.

    Later prompts, and replies, that are too long are a warning. Raises ChatTemplateError for prompts that the chat
    template cannot render.
    """
    longest = 0
    lasts: list[int] = []
    replies: list[int] = []
    for messages, _ in itertools.islice(played.transcripts, EPISODES_TO_MEASURE):
        opening = itertools.takewhile(lambda message: message[0] != "assistant", messages)
        longest = max(longest, len(chat.prompt(chat_messages(opening))))
        lasts.append(len(chat.prompt(chat_messages(messages[:-1]))))
        replies += [len(chat.encode(str(content))) for role, content in messages if role == "assistant"]
    rule = f"an episode's first prompt has {longest} tokens. Raise max_req_tokens."
    require(longest <= config.max_req_tokens, "max_req_tokens", config.max_req_tokens, rule)
    _warn_of_long_prompts(lasts, config)
    _warn_of_long_replies(replies, config)
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    wanted = longest_sequence(config)
    rule = (
        f"with max_res_tokens={config.max_res_tokens} more than the {room} positions of the model. Lower one of them."
    )
    require(room is None or wanted <= room, "max_req_tokens", config.max_req_tokens, rule)


def _warn_of_long_prompts(lengths: Sequence[int], config: Config) -> None:
    """Log how many of the last prompts of random play exceed the limit, and what the run will do with them."""
    out_of_tokens = config.conversation.out_of_tokens
    too_long = sum(length > config.max_req_tokens for length in lengths)
    if too_long and out_of_tokens != "forget":
        log.warning(
            "prompts of random play have up to %d tokens, and %d of %d more than max_req_tokens=%d: an episode ends at "
            "such a prompt (conversation.out_of_tokens=%s). Raise max_req_tokens, or set conversation.history to "
            "latest, or out_of_tokens to forget.",
            max(lengths), too_long, len(lengths), config.max_req_tokens, out_of_tokens,
        )  # fmt: skip


def _warn_of_long_replies(lengths: Sequence[int], config: Config) -> None:
    """Log how many replies of random play have more tokens, without an end token, than a model may sample."""
    too_long = sum(length > config.max_res_tokens for length in lengths)
    if too_long:
        log.warning(
            "%d of %d replies of random play have up to %d tokens, more than max_res_tokens=%d: the model's replies "
            "are cut off there, and may name no action. Raise max_res_tokens.",
            too_long, len(lengths), max(lengths), config.max_res_tokens,
        )  # fmt: skip


def require_agreement(model: PreTrainedModel, chat: Chat, config: Config) -> None:
    """Raise UnsupportedModel, before anything is trained, for a model that the generator cannot sample from."""
    generator = Generator(model, chat, max_new_tokens=config.max_res_tokens, precision=config.model.precision)
    generator.require_agreement()


def load_starting_model(settings: ModelConfig, seed: int) -> StartingModel:
    """The model at `model.path`, with the adapter that is trained if there is to be one. seed: of its dither."""
    model, tokenizer = load_model(settings.path, weights=settings.weights, device=device_of(settings.device))
    if settings.lora:
        add_adapter(model, settings.lora, settings.path)
    elif multiplies_bfloat16(settings.precision, model.device):
        dither(model, seed=seed)
    return StartingModel(model, tokenizer, load_image_reader(settings.path, model.config, tokenizer))


def groups_in_batch(config: Config, played: Sequence[CollectedPlay]) -> int:
    """Number of groups in one training step, at least 1."""
    buffer = config.replay_buffer
    decisions = sum(share * play.decisions_per_episode for share, play in zip(shares(config.env), played, strict=True))
    return buffer.batch_size or max(1, round(buffer.batch_decisions / (config.group_size * decisions)))


def _create(config: Config, played: Sequence[CollectedPlay]) -> StartingModel:
    """A tiny model with the words of the transcripts. It reads images if these have some."""
    transcripts = transcripts_of(played)
    reads_images = have_images(transcripts)
    tokenizer = word_tokenizer(transcript_words(transcripts), images=reads_images)
    make_model = tiny_vision_model if reads_images else tiny_model
    device = device_of(config.model.device)
    model = make_model(config.model, tokenizer, max_length=longest_sequence(config), seed=config.seed, device=device)
    reader = tiny_image_reader() if reads_images else None
    return StartingModel(model, tokenizer, reader)


def transcripts_of(played: Sequence[CollectedPlay]) -> Counter[Transcript]:
    """The transcripts of several environments as one."""
    return sum((play.transcripts for play in played), Counter())


def longest_sequence(config: Config) -> int:
    """Most tokens of a sequence."""
    return config.max_req_tokens + config.max_res_tokens
