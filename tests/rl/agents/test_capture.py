"""What programs of all manners ask their model: each sampled token is kept once, exactly as it was sampled."""

import asyncio
from collections.abc import Sequence

import pytest

from openenv.agents.endpoint.requests import ModelRequest, RequestRefused
from openenv.rl.agents.model import TokenLimits
from openenv.rl.models.chat import Chat
from tests.rl.agents.asking import QUESTION, SEES, TOOL, Message, message_of, player

MODELS = ["Qwen3", "Llama", "Gemma3", "Granite"]  # thinking dropped, none, no system role, thinking opened and kept


@pytest.mark.parametrize("name", MODELS)
async def test_a_conversation_that_only_grows_is_one_sequence(name: str) -> None:
    async with player(name) as asking:
        await asking.talk([{"role": "system", "content": "say the word."}], ["hit or stand?", "once", "think", "none"])

        (segment,) = asking.require_exact()
        assert len(segment.replies) == 4
        assert asking.capture.invalid_because is None


@pytest.mark.parametrize("name", MODELS)
async def test_results_of_functions_continue_it_too(name: str) -> None:
    async with player(name) as asking:
        messages = [QUESTION]
        for number in range(3):
            reply = message_of(await asking.ask(messages, tools=(TOOL,)))
            call = {"id": f"c{number}", "type": "function", "function": {"name": "deal", "arguments": "{}"}}
            messages += [reply, {"role": "user", "content": "go on"}]
            messages += [{"role": "assistant", "content": "", "tool_calls": [call]}]  # one that the program made up
            messages += [{"role": "tool", "tool_call_id": f"c{number}", "content": "a ten"}]

        (segment,) = asking.require_exact()
        assert len(segment.replies) == 3
        assert "a ten" in asking.generator.chat.tokenizer.decode(segment.token_ids)


async def test_calls_of_the_model_are_read_and_continue_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 'I deal. <tool_call>{"name": "deal", "arguments": {"seat": 1}}</tool_call>'
    monkeypatch.setattr(Chat, "text", lambda self, token_ids: written)  # this model has not learned to call
    async with player() as asking:
        reply = await asking.ask([QUESTION], tools=(TOOL,))
        assert (reply.content, reply.tool_calls[0].name, reply.tool_calls[0].arguments) == (
            "I deal.", "deal", '{"seat": 1}',
        )  # fmt: skip
        sent = {"id": "x", "type": "function", "function": {"name": "deal", "arguments": '{ "seat":1 }'}}
        back = [{"role": "assistant", "content": "I deal.\n", "tool_calls": [sent]}]
        await asking.ask([QUESTION, *back, {"role": "tool", "tool_call_id": "x", "content": "a ten"}], tools=(TOOL,))

        assert len(asking.require_exact()) == 1


async def test_what_a_program_rewrites_begins_another_sequence() -> None:
    async with player() as asking:
        messages = await asking.talk([], ["hit or stand?", "once"])
        await asking.talk([{"role": "user", "content": "in short: a ten is shown"}], ["hit or stand?"])  # compaction
        await asking.talk([{"role": "system", "content": "you are another"}], ["red or green?"])  # a sub-agent
        rewritten = [messages[0], {"role": "assistant", "content": "hit"}, *messages[2:]]
        await asking.talk(rewritten, ["once"])

        segments = asking.require_exact()
        assert [len(segment.replies) for segment in segments] == [2, 1, 1, 1]
        assert asking.capture.invalid_because is None


async def test_branches_share_their_beginning_and_each_token_counts_once() -> None:
    async with player() as asking:
        start = await asking.talk([], ["hit or stand?"])
        ends = await asyncio.gather(*(asking.talk(start, [word]) for word in ("red", "green", "blue")))

        segments = asking.require_exact()
        assert sorted(len(segment.replies) for segment in segments) == [1, 1, 2]
        (first,) = (segment for segment in segments if len(segment.replies) == 2)
        shared = len(first.prompts[0]) + len(first.replies[0])
        assert all((one.token_ids[:shared] == first.token_ids[:shared]).all() for one in segments)
        assert sum(len(segment.sampled_ids) for segment in segments) == asking.capture.ledger()["tokens trained"]
        assert len(ends) == 3


@pytest.mark.parametrize("url", ["http://localhost/card.png", "data:image/png;base64,AAAA"])
async def test_what_is_no_image_is_refused_and_the_episode_goes_on(url: str) -> None:
    async with player(SEES) as asking:
        image = {"type": "image_url", "image_url": {"url": url}}
        with pytest.raises(RequestRefused, match="messages: image_url: not an image file as base64"):
            await asking.ask([{"role": "user", "content": [image]}])
        await asking.ask([QUESTION])

        assert asking.model.broken is None
        assert asking.capture.invalid_because is None


async def test_a_reply_that_has_not_arrived_is_not_trained() -> None:
    async with player() as asking:
        unseen = await asking.ask([QUESTION])
        reply = message_of(await asking.ask([QUESTION], is_retry=True))
        await asking.talk([QUESTION, reply], ["once"])

        (segment,) = asking.require_exact()
        assert len(segment.replies) == 2
        ledger = asking.capture.ledger()
        assert ledger["tokens not trained: not received"] == unseen.num_tokens
        assert ledger["tokens trained"] == len(segment.sampled_ids)
        assert ledger["calls answered, made again"] == 1


async def test_what_is_sampled_after_the_end_of_the_episode_is_not_trained() -> None:
    has_ended = False
    async with player(has_ended=lambda: has_ended) as asking:
        messages = await asking.talk([QUESTION], ["again"])
        before = asking.capture.ledger()["tokens trained"]
        has_ended = True
        late = await asking.ask(messages)
        other = await asking.ask([{"role": "user", "content": "title?"}])

        (segment,) = asking.require_exact()
        ledger = asking.capture.ledger()
        assert len(segment.sampled_ids) == ledger["tokens trained"] == before > 0
        assert ledger["tokens not trained: after the end"] == late.num_tokens + other.num_tokens > 0


async def test_the_same_question_again_is_a_call_like_any_other() -> None:
    async with player() as asking:
        replies = [await asking.ask([QUESTION]) for _ in range(2)]
        replies += await asyncio.gather(*(asking.ask([QUESTION]) for _ in range(2)))
        answer = await asking.model.answer(ModelRequest((QUESTION,), num_replies=3))

        assert len(asking.require_exact()) == 7
        assert len({reply.content for reply in (*replies, *answer.replies)}) > 1


async def test_draws_do_not_depend_on_the_order_of_calls_at_the_same_time() -> None:
    async def sequences(words: Sequence[str]) -> list[list[int]]:
        async with player(seed=5) as asking:
            await asyncio.gather(*(asking.talk([], [word, "once"]) for word in words))
            return sorted(segment.token_ids.tolist() for segment in asking.capture.segments())

    assert await sequences(["red", "green", "blue"]) == await sequences(["blue", "red", "green"])


async def test_limits_and_stop_texts_cut_replies_and_the_tokens_after_them() -> None:
    async with player() as asking:
        whole = await asking.ask([QUESTION])
        cut = await asking.ask([QUESTION, {"role": "user", "content": "once"}], max_tokens=2)
        assert (cut.end, cut.num_tokens) == ("length", 2)

        *_, letter = whole.content
        async with player() as other:
            stopped = await other.ask([QUESTION], stop=(letter,))
            assert stopped.end == "stop"
            assert stopped.content == whole.content.partition(letter)[0].strip()
            assert [len(segment.sampled_ids) for segment in other.require_exact()] == [stopped.num_tokens]
        assert [len(one.sampled_ids) for one in asking.require_exact()] == [whole.num_tokens, 2]


async def test_a_reply_that_was_cut_off_is_continued_as_it_is() -> None:
    async with player() as asking:
        reply = await asking.ask([QUESTION], max_tokens=1)
        assert reply.end == "length"
        await asking.talk([QUESTION, message_of(reply)], ["go on"])

        (segment,) = asking.require_exact()
        assert len(segment.replies[0]) == 1


async def test_what_cannot_be_answered_is_refused_and_the_episode_goes_on() -> None:
    async with player(limits=TokenLimits(40, 12, 14)) as asking:
        with pytest.raises(RequestRefused, match=r"the prompt has .* tokens, and the model reads 40"):
            await asking.ask([{"role": "user", "content": "word " * 60}])
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        with pytest.raises(RequestRefused, match="the model reads no images"):
            await asking.ask([{"role": "user", "content": [image]}])
        while asking.capture.ledger()["tokens trained"] < 14:
            await asking.ask([QUESTION])
        with pytest.raises(RequestRefused, match="has sampled its 14 tokens"):
            await asking.ask([QUESTION])

        assert asking.capture.invalid_because is None
        assert sum(len(segment.sampled_ids) for segment in asking.require_exact()) == 14
        assert asking.capture.ledger()["calls refused"] == 3


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "#/nowhere"}, {"type": "string", "pattern": "b("}])
async def test_a_schema_that_no_reply_can_meet_is_refused_and_fails_no_other_call(schema: Message) -> None:
    async with player() as asking, asyncio.TaskGroup() as tasks:
        other = tasks.create_task(asking.ask([QUESTION]))
        with pytest.raises(RequestRefused, match="the JSON schema of the reply: ") as refusal:
            await asking.ask([QUESTION], reply_schema=schema)

        assert refusal.value.status == 400
        assert (await other).content
        assert asking.model.broken is None


async def test_a_lost_call_makes_the_episode_invalid_unless_it_is_made_again() -> None:
    async with player() as asking:
        calling = asyncio.ensure_future(asking.ask([QUESTION]))
        await asyncio.sleep(0)
        assert asking.capture.invalid_because == "call 0 was still open as the episode ended"
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        assert asking.capture.invalid_because == "call 0 was lost: the program has not waited for its reply"
        await asking.ask([QUESTION], is_retry=True)
        assert asking.capture.invalid_because is None


async def test_a_program_that_asks_for_other_draws_receives_the_same_and_is_counted() -> None:
    async with player(seed=3) as asking, player(seed=3) as cold:
        reply = await asking.ask([QUESTION])
        assert await cold.ask([QUESTION], sampling={"temperature": 0.2, "top_p": 1.0, "seed": 7}) == reply

        assert cold.model.not_given == {"asked for other draws: temperature": 1}
