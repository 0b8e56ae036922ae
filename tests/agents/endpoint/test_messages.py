"""Messages as Anthropic's own client speaks them."""

import anthropic
import pytest
from pydantic import BaseModel

USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"city": {}}}
TOOL = {"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}
BASE64 = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


class City(BaseModel):
    name: str


async def ask(client, **fields):
    return await client.messages.create(**{"model": "any", "messages": [USER], "max_tokens": 50, **fields})


async def test_the_answer_has_text_thinking_end_and_usage(anthropic_client, model):
    model.reply("Oslo.", reasoning="A capital.")

    message = await ask(anthropic_client, model="my-model")

    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.content[0].thinking, message.content[1].text) == ("A capital.", "Oslo.")
    assert (message.stop_reason, message.stop_sequence, message.model) == ("end_turn", None, "my-model")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 3)
    assert model.request.max_tokens == 50


@pytest.mark.parametrize(
    ("fields", "reason", "sequence"),
    [
        ({"end": "length"}, "max_tokens", None),
        ({"end": "content_filter"}, "refusal", None),
        ({"end": "stop", "stopped_by": "END"}, "stop_sequence", "END"),
    ],
)
async def test_the_end_of_a_reply_has_anthropics_name(anthropic_client, model, fields, reason, sequence):
    model.reply("a", **fields)

    message = await ask(anthropic_client, stop_sequences=["END"], extra_body={"temperature": 0.5, "top_k": 3})

    assert (message.stop_reason, message.stop_sequence) == (reason, sequence)
    assert (model.request.stop, model.request.sampling) == (("END",), {"temperature": 0.5, "top_k": 3})


async def test_the_model_receives_messages_in_one_form(anthropic_client, model):
    image = {"type": "image", "source": BASE64}
    await ask(
        anthropic_client,
        system=[{"type": "text", "text": text, "cache_control": {}} for text in ("be", "brief")],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "I see"},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": 1}},
                {"type": "tool_use", "id": "c2", "name": "weather", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
                {"type": "tool_result", "tool_use_id": "c2", "content": [image], "is_error": True},
                {"type": "text", "text": "go on"},
            ]},
        ],
        metadata={"user_id": "eve"}, thinking={"type": "enabled", "budget_tokens": 1024},
    )  # fmt: skip

    as_url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    calls = [
        {"id": name, "type": "function", "function": {"name": "weather", "arguments": arguments}}
        for name, arguments in (("c1", '{"city": 1}'), ("c2", "{}"))
    ]
    assert model.request.messages == (
        {"role": "system", "content": "be\nbrief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, as_url]},
        {"role": "assistant", "content": "I see", "reasoning_content": "hm", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": [as_url]},
        {"role": "user", "content": "go on"},
    )


async def test_arguments_come_back_to_the_model_as_it_wrote_them(anthropic_client, model):
    model.call_tools(("c1", "weather", '{"b":1,  "a":2}'), ("c2", "weather", "no json"), ("c3", "weather", ""))
    first = await ask(anthropic_client, tools=[TOOL])
    await ask(anthropic_client, tools=[TOOL], messages=[USER, {"role": "assistant", "content": first.content}, USER])
    exact = [call["function"]["arguments"] for call in model.request.messages[1]["tool_calls"]]
    first.content[0].input["a"] = 3
    await ask(anthropic_client, tools=[TOOL], messages=[USER, {"role": "assistant", "content": first.content}, USER])

    assert first.stop_reason == "tool_use"
    assert [block.input for block in first.content][1:] == [{"invalid_json": "no json"}, {}]
    assert exact == ['{"b":1,  "a":2}', "no json", ""]
    assert model.request.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"b": 1, "a": 3}'
    assert model.request.tools == ({"name": "weather", "description": "Of a city.", "parameters": SCHEMA},)


@pytest.mark.parametrize(
    ("given", "choice", "named"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "none"}, "none", None),
        ({"type": "any"}, "required", None),
        ({"type": "tool", "name": "weather"}, "required", "weather"),
    ],
)
async def test_a_choice_of_tools_reaches_the_model(anthropic_client, model, given, choice, named):
    await ask(anthropic_client, tools=[TOOL], tool_choice=given)
    assert model.request.allows_parallel_calls
    await ask(anthropic_client, tools=[TOOL], tool_choice={**given, "disable_parallel_tool_use": True})

    assert (model.request.tool_choice, model.request.named_tool) == (choice, named)
    assert not model.request.allows_parallel_calls


async def test_a_stream_has_the_same_answer_in_events(anthropic_client, model):
    model.call_tools(("c1", "weather", '{"city":1}'), content="Hm.", reasoning="so")
    async with anthropic_client.messages.stream(model="any", messages=[USER], max_tokens=5, tools=[TOOL]) as stream:
        kinds = [event.type async for event in stream]
        message = await stream.get_final_message()

    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert (message.content[0].thinking, message.content[1].text) == ("so", "Hm.")
    assert message.content[2].input == {"city": 1}
    assert (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens) == ("tool_use", 7, 3)


async def test_a_ping_keeps_the_stream_open_until_the_answer(endpoint, key, model):
    model.hold.clear()
    client = anthropic.AsyncAnthropic(base_url=endpoint.base_url, api_key=key, max_retries=0)
    async with (
        client,
        client.messages.with_streaming_response.create(
            model="any", messages=[USER], max_tokens=5, stream=True
        ) as response,
    ):
        lines = response.iter_lines()
        first = await anext(lines)
        model.hold.set()
        rest = [line async for line in lines]

    assert first == "event: ping"
    assert "event: message_stop" in rest


async def test_a_reply_with_a_schema_is_parsed(anthropic_client, model):
    model.reply('{"name": "Oslo"}')
    parsed = await anthropic_client.messages.parse(model="any", messages=[USER], max_tokens=50, output_format=City)

    assert parsed.parsed_output == City(name="Oslo")
    assert model.request.reply_schema["properties"]["name"]["type"] == "string"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [USER, {"role": "assistant", "content": "I"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
         "messages[0].content[0].source.type"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"system": 3}, "system"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
    ],
)  # fmt: skip
async def test_a_request_that_cannot_be_honoured_is_refused_by_the_name_of_its_field(anthropic_client, fields, name):
    body = {"model": "any", "messages": [USER], "max_tokens": 5, **fields}
    with pytest.raises(anthropic.BadRequestError) as raised:
        await anthropic_client.post("/v1/messages", cast_to=object, body=body)

    assert raised.value.body["error"]["type"] == "invalid_request_error"
    assert raised.value.body["error"]["message"].startswith(f"{name}: ")


async def test_what_is_not_served_has_anthropics_error(anthropic_client):
    with pytest.raises(anthropic.NotFoundError) as raised:
        await anthropic_client.messages.count_tokens(model="any", messages=[USER])

    assert raised.value.body["error"]["type"] == "not_found_error"
