"""Decides from random play what prompts show where a text interface leaves it open: whole episodes where they fit."""

import itertools
import logging
from collections.abc import Sequence
from typing import Any

from openenv.rl.config import Config
from openenv.rl.models.chat import Chat, load_tokenizer, word_tokenizer
from openenv.rl.training.teacher_play import CollectedPlay
from openenv.rl.training.transcripts import Message, chat_messages, have_images, transcript_words
from openenv.text.interface import History, TextInterface

log = logging.getLogger(__name__)

EPISODES_TO_MEASURE = 64
"""Episodes of random play of which lengths are measured, and which are played where nothing is pretrained on them."""


def chat_to_measure(config: Config, text: TextInterface[Any, Any], tokenizer: Any) -> Chat:
    """The chat that counts the tokens of prompts before a model is loaded."""
    tools = text.tools() if "tools" in str(tokenizer.chat_template) else []
    return Chat(tokenizer, end_ids=[], enable_thinking=config.model.enable_thinking, tools=tools)


def is_open(config: Config, text: TextInterface[Any, Any]) -> bool:
    """Whether random play has to show what prompts show."""
    settings = config.conversation
    return text.history is None and settings.history is None and settings.out_of_tokens != "forget"


def fitting_history(config: Config, name: str, text: TextInterface[Any, Any], play: CollectedPlay) -> History:
    """`latest` if most whole episodes are longer than a prompt may be and their first prompts are not, else `full`.

    Prompts with images, and those of a game whose seats the same play acts for, are not measured: `full`.

    Args:
        config: that of the run.
        name: of the environment, for the warning.
        text: its text interface.
        play: random play with whole episodes.
    """
    if have_images(play.transcripts) or play.acts_for_all:
        return "full"
    path, limit = config.model.path, config.max_req_tokens
    tokenizer = load_tokenizer(path) if path else word_tokenizer(transcript_words(play.transcripts))
    chat = chat_to_measure(config, text, tokenizer)
    measured = [messages for messages, _ in itertools.islice(play.transcripts.elements(), EPISODES_TO_MEASURE)]
    firsts, lasts = ([_length(chat, shown) for shown in part] for part in zip(*map(_ends, measured), strict=True))
    too_long = sum(length > limit for length in lasts)
    if 2 * too_long <= len(lasts) or max(firsts) > limit:
        return "full"
    log.warning(
        "env.name=%s: %d of %d episodes of random play have up to %d tokens, more than max_req_tokens=%d: each prompt "
        "shows the newest observation alone. If that does not say all that matters, set conversation.history to full "
        "and raise max_req_tokens, or set conversation.out_of_tokens to forget. `openenv eval` shows the same with "
        "--history latest.",
        name, too_long, len(lasts), max(lasts), limit,
    )  # fmt: skip
    return "latest"


def _ends(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The messages of an episode's first and last prompt."""
    return list(itertools.takewhile(lambda message: message[0] != "assistant", messages)), messages[:-1]


def _length(chat: Chat, shown: Sequence[Message]) -> int:
    return len(chat.prompt(chat_messages(shown)))
