"""Chat Completions as OpenAI's own client speaks it."""

import openai
import pytest
from pydantic import BaseModel

from openenv.agents.endpoint.requests import ModelAnswer, ModelReply, ModelRequest

USER = {"role": "user", "content": "hi"}
IMAGE = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {"name": "weather", "description": "Of a city.", "parameters": {"type": "object", "properties": {"city": {}}}}
NO_SCHEMA = {"type": "json_schema", "json_schema": {"name": "a"}}
TOOL = {"type": "function", "function": WEATHER}


class City(BaseModel):
    name: str


async def ask(client, **fields):
    return await client.chat.completions.create(**{"model": "any", "messages": [USER], **fields})


async def test_the_answer_has_text_thinking_end_and_usage(openai_client, model):
    model.reply("Oslo.", reasoning="A capital.", end="length")

    completion = await ask(openai_client, model="my-model")

    choice = completion.choices[0]
    assert (choice.message.content, choice.message.reasoning_content) == ("Oslo.", "A capital.")
    assert (choice.finish_reason, completion.model, completion.object) == ("length", "my-model", "chat.completion")
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 3)
    assert completion.usage.total_tokens == 10


async def test_the_model_receives_messages_in_one_form(openai_client, model):
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}]
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":1}'}}

    await ask(openai_client, messages=[
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": parts, "name": "eve"},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": texts},
        {"role": "assistant", "content": texts},
    ])  # fmt: skip

    assert model.request.messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [parts[0], {"type": "image_url", "image_url": {"url": IMAGE}}]},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
        {"role": "assistant", "content": "ab"},
    )


async def test_the_model_receives_limits_and_only_the_sampling_that_is_given(openai_client, model):
    await ask(openai_client)
    bare = model.request
    await ask(
        openai_client, temperature=0.5, seed=3, max_tokens=9, stop=["a", "b"], extra_body={"top_k": 4},
        metadata={"a": "b"}, user="eve", service_tier="flex", reasoning_effort="low", parallel_tool_calls=False,
    )  # fmt: skip
    full = model.request
    await ask(openai_client, max_completion_tokens=5, max_tokens=9, stop="c")

    assert bare == ModelRequest((USER,))
    assert full.sampling == {"temperature": 0.5, "seed": 3, "top_k": 4}
    assert (full.max_tokens, full.stop, full.allows_parallel_calls) == (9, ("a", "b"), False)
    assert (model.request.max_tokens, model.request.stop) == (5, ("c",))


async def test_parallel_calls_of_tools_and_their_results_go_round(openai_client, model):
    model.call_tools(("c1", "weather", '{"city": "Oslo"}'), ("c2", "weather", "no json"), content="Let me see.")
    first = (await ask(openai_client, tools=[TOOL])).choices[0]
    results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in first.message.tool_calls]
    await ask(openai_client, tools=[TOOL], messages=[USER, first.message.model_dump(exclude_none=True), *results])

    assert first.finish_reason == "tool_calls"
    assert [call.function.arguments for call in first.message.tool_calls] == ['{"city": "Oslo"}', "no json"]
    assert model.requests[0].tools == (WEATHER,)
    assistant = model.request.messages[1]
    assert assistant["content"] == "Let me see."
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == ['{"city": "Oslo"}', "no json"]
    assert [message["tool_call_id"] for message in model.request.messages[2:]] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("given", "choice", "named"),
    [
        ("auto", "auto", None),
        ("none", "none", None),
        ("required", "required", None),
        ({"type": "function", "function": {"name": "weather"}}, "required", "weather"),
    ],
)
async def test_a_choice_of_tools_reaches_the_model(openai_client, model, given, choice, named):
    await ask(openai_client, tools=[TOOL], tool_choice=given)

    assert (model.request.tool_choice, model.request.named_tool) == (choice, named)


async def test_a_stream_has_the_same_answer_in_chunks(openai_client, model):
    model.call_tools(("c1", "weather", "{}"), ("c2", "weather", "[]"), content="Hm.", reasoning="so")
    stream = await ask(openai_client, stream=True, stream_options={"include_usage": True}, tools=[TOOL])
    chunks = [chunk async for chunk in stream]

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert "".join(delta.content or "" for delta in deltas) == "Hm."
    assert [delta.reasoning_content for delta in deltas if hasattr(delta, "reasoning_content")] == ["so"]
    assert [(call.index, call.id, call.function.arguments) for call in calls] == [(0, "c1", "{}"), (1, "c2", "[]")]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 10


async def test_the_clients_own_accumulator_reads_the_stream(openai_client, model):
    model.reply("a text", logprobs=(("a", -0.5), (" text", -1.5)))
    async with openai_client.chat.completions.stream(model="any", messages=[USER], logprobs=True, n=1) as stream:
        completion = await stream.get_final_completion()

    assert completion.choices[0].message.content == "a text"
    assert [token.logprob for token in completion.choices[0].logprobs.content] == [-0.5, -1.5]


async def test_n_replies_are_n_choices(openai_client, model):
    model.answers.append(ModelAnswer((ModelReply("one", num_tokens=1), ModelReply("two", num_tokens=2)), 7))
    completion = await ask(openai_client, n=2)
    model.answers.append(ModelAnswer((ModelReply("one", num_tokens=1), ModelReply("two", num_tokens=2)), 7))
    chunks = [chunk async for chunk in await ask(openai_client, n=2, stream=True)]

    assert [(choice.index, choice.message.content) for choice in completion.choices] == [(0, "one"), (1, "two")]
    assert completion.usage.completion_tokens == 3
    contents = [(c.choices[0].index, c.choices[0].delta.content) for c in chunks if c.choices[0].delta.content]
    assert contents == [(0, "one"), (1, "two")]


async def test_logprobs_are_those_of_the_tokens(openai_client, model):
    model.reply("hé", logprobs=(("hé", -0.25),))
    completion = await ask(openai_client, logprobs=True)

    token = completion.choices[0].logprobs.content[0]
    assert (token.token, token.logprob, token.bytes) == ("hé", -0.25, [104, 195, 169])
    assert model.request.wants_logprobs


async def test_a_reply_with_a_schema_is_parsed(openai_client, model):
    model.reply('{"name": "Oslo"}')
    parsed = await openai_client.chat.completions.parse(model="any", messages=[USER], response_format=City)
    schema = model.request.reply_schema
    await ask(openai_client, response_format={"type": "json_object"})
    any_object = model.request.reply_schema
    await ask(openai_client, response_format={"type": "text"})

    assert parsed.choices[0].message.parsed == City(name="Oslo")
    assert schema["properties"]["name"]["type"] == "string"
    assert (any_object, model.request.reply_schema) == ({"type": "object"}, None)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "hi"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"n": 0}, "n"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stop": [1]}, "stop[0]"),
        ({"stream": "yes"}, "stream"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "often"}, "tool_choice"),
        ({"response_format": NO_SCHEMA}, "response_format.json_schema.schema"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"web_search_options": {"a": 1}}, "web_search_options"),
        ({"functions": [{}]}, "functions"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logit_bias": {"3": 1}}, "logit_bias"),
    ],
)
async def test_a_request_that_cannot_be_honoured_is_refused_by_the_name_of_its_field(openai_client, fields, name):
    body = {"model": "any", "messages": [USER], **fields}
    with pytest.raises(openai.BadRequestError) as raised:
        await openai_client.post("/chat/completions", cast_to=object, body=body)

    assert raised.value.param == name
    assert raised.value.body["message"].startswith(f"{name}: ")
    assert raised.value.type == "invalid_request_error"
