"""Transcripts of random play: prompts with replies and the outcome, as text and as tokens."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from openenv.policies.prompts import ChatMessage
from openenv.rl.models.chat import Chat
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.text.content import text_of, thawed

Message = tuple[str, Hashable]
"""Role and content, which `thawed` makes that of a chat message. The replies are the assistant's."""
OF_PROGRAM = "program"
"""The role of an assistant's message that a program has put in the place of a reply: it is shown, and not learned."""
Transcript = tuple[tuple[Message, ...], str]
"""A prompt with its reply, and the outcome of the episode."""


def transcript_words(transcripts: Counter[Transcript]) -> list[str]:
    """All texts of the transcripts, sorted, for the tokenizer: equal games give equal vocabularies."""
    texts = {text_of(thawed(content)) for messages, _ in transcripts for _, content in messages}
    return sorted(texts | {outcome for _, outcome in transcripts})


def chat_messages(messages: Iterable[Message]) -> list[ChatMessage]:
    """Messages of a transcript as those of a chat."""
    return [
        {"role": "assistant" if role == OF_PROGRAM else role, "content": thawed(content)} for role, content in messages
    ]


def have_images(transcripts: Counter[Transcript]) -> bool:
    """Whether a transcript shows an image."""
    return any(not isinstance(content, str) for messages, _ in transcripts for _, content in messages)


def transcript_ids(chat: Chat, transcript: Transcript) -> TokenIds:
    """The transcript in the chat template: prompts as in play, each reply with its end token, and the outcome last."""
    messages = chat_messages(transcript[0])
    reply_ids: TokenIds = ()
    for message in messages:
        if message["role"] == "assistant":
            message["token_ids"] = reply_ids = (*chat.encode(str(message["content"])), chat.end_id)
    return chat.prompt(messages[:-1]) + reply_ids + chat.encode(transcript[1])


def hindsight_ids(chat: Chat, transcript: Transcript) -> TokenIds:
    """The outcome first, then the transcript: the reply is read knowing how the episode ended."""
    whole = transcript_ids(chat, transcript)
    outcome = chat.encode(transcript[1])
    return outcome + whole[: len(whole) - len(outcome)]


def places_of_program(chat: Chat, transcript: Transcript) -> set[int]:
    """The places, among the ids of a transcript, of what the program has put in the place of replies."""
    messages, _ = transcript
    found = set[int]()
    for number, (role, content) in enumerate(messages):
        if role == OF_PROGRAM:
            start = len(transcript_ids(chat, ((*messages[:number], ("assistant", "")), ""))) - 1
            found.update(range(start, start + len(chat.encode(text_of(thawed(content)))) + 1))
    return found


def fitting(chat: Chat, transcripts: Counter[Transcript], max_length: int) -> Counter[Transcript]:
    """The transcripts, those of more than `max_length` tokens divided between two turns until each part fits.

    The rules begin each part, and the outcome ends it. A single turn is not divided.
    """
    parts: Counter[Transcript] = Counter()
    for transcript, count in transcripts.items():
        for part in _divided(chat, transcript, max_length):
            parts[part] += count
    return parts


def replies_per_transcript(transcripts: Counter[Transcript]) -> float:
    """The mean number of replies of a transcript; at least 1."""
    replies = sum(
        count * sum(role == "assistant" for role, _ in messages) for (messages, _), count in transcripts.items()
    )
    return max(1.0, replies / max(1, transcripts.total()))


def _divided(chat: Chat, transcript: Transcript, max_length: int) -> Iterator[Transcript]:
    waiting = [transcript]
    while waiting:
        messages, outcome = waiting.pop()
        ends = [place for place, (role, _) in enumerate(messages, start=1) if role == "assistant"]
        if len(ends) < 2 or len(transcript_ids(chat, (messages, outcome))) <= max_length:
            yield messages, outcome
            continue
        rules = messages[:1] if messages[0][0] == "system" else ()
        middle = ends[len(ends) // 2 - 1]
        waiting += [((*rules, *messages[middle:]), outcome), (messages[:middle], outcome)]
