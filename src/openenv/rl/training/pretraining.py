"""Pretraining: next-token training on transcripts of uniformly random legal play, with their outcomes.

It teaches the model the words of the game, the form of a reply, and that outcomes depend on the observation. It
contains no good play: every action was drawn uniformly from the legal ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from transformers import PreTrainedModel

from openenv.rl.config import Precision, PretrainConfig
from openenv.rl.models.chat import Chat
from openenv.rl.training.supervised import Example, SupervisedSettings, train_supervised
from openenv.rl.training.transcripts import (
    Transcript,
    chat_messages,
    fitting,
    hindsight_ids,
    places_of_program,
    replies_per_transcript,
    transcript_ids,
)

_WARMUP_STEPS = 50


def pretrain(
    model: PreTrainedModel,
    chat: Chat,
    transcripts: Counter[Transcript],
    config: PretrainConfig,
    *,
    precision: Precision,
    seed: int,
    max_length: int,
    tokens_per_forward: int,
    on_step: Callable[[int, float], None] = lambda done, loss: None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Train `model` to predict each token of the transcripts. Returns the loss of every batch, in nats per token.

    max_length: most tokens of a transcript; a longer one is divided. For the others see `train_supervised`.
    """
    transcripts = fitting(chat, transcripts, max_length)
    settings = SupervisedSettings(
        steps=config.steps,
        rows=max(1, round(config.batch_size / replies_per_transcript(transcripts))),
        lr=config.lr,
        warmup_steps=_WARMUP_STEPS,
        tokens_per_forward=tokens_per_forward,
        precision=precision,
        seed=seed,
    )
    examples = list(_examples(model, chat, transcripts))
    return train_supervised(model, examples, settings, pad_id=chat.pad_id, on_step=on_step, is_time_up=is_time_up)


def _examples(model: PreTrainedModel, chat: Chat, transcripts: Counter[Transcript]) -> Iterator[Example]:
    """Each transcript with its outcome last, and with its outcome first.

    The tokens of images are not predicted, nor what a program has put in the place of replies: the model would write
    that as its own.
    """
    image_id = getattr(model.config, "image_token_id", None)
    for transcript, count in transcripts.items():
        images, left_out = chat.images(chat_messages(transcript[0])), places_of_program(chat, transcript)
        first = len(chat.encode(transcript[1]))
        for ids, shift in ((transcript_ids(chat, transcript), 0), (hindsight_ids(chat, transcript), first)):
            places: Sequence[int] = range(1, len(ids))
            if images or left_out:
                places = [place for place in places if ids[place] != image_id and place - shift not in left_out]
            yield Example(ids, places, count, images)
