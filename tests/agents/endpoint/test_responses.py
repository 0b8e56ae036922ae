"""Responses as OpenAI's own client speaks them."""

import openai
import pytest
from pydantic import BaseModel

IMAGE = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"city": {}}}
TOOL = {"type": "function", "name": "weather", "description": "Of a city.", "parameters": SCHEMA, "strict": False}


class City(BaseModel):
    name: str


async def ask(client, **fields):
    return await client.responses.create(**{"model": "any", "input": "hi", **fields})


async def test_the_answer_has_text_thinking_and_usage(openai_client, model):
    model.reply("Oslo.", reasoning="A capital.")

    response = await ask(openai_client, instructions="be brief", model="my-model")

    assert (response.output_text, response.status, response.model) == ("Oslo.", "completed", "my-model")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].content[0].text == "A capital."
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (7, 3, 10)
    assert model.request.messages == ({"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"})


async def test_a_reply_that_is_cut_off_is_incomplete(openai_client, model):
    model.reply("Os", end="length")

    response = await ask(openai_client, max_output_tokens=3, temperature=0.5, top_p=0.9)

    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (model.request.max_tokens, model.request.sampling) == (3, {"temperature": 0.5, "top_p": 0.9})


async def test_items_of_one_reply_become_one_message_of_the_assistant(openai_client, model):
    parts = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": IMAGE, "detail": "auto"}]
    await ask(openai_client, input=[
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": parts},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "id": "m", "status": "completed",
         "content": [{"type": "output_text", "text": "I see", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "[]"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]},
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
    ])  # fmt: skip

    calls = [
        {"id": name, "type": "function", "function": {"name": "weather", "arguments": arguments}}
        for name, arguments in (("c1", "{}"), ("c2", "[]"))
    ]
    image = {"type": "image_url", "image_url": {"url": IMAGE}}
    assert model.request.messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {"role": "assistant", "content": "I see", "reasoning_content": "hm", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": "sun"},
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
    )


async def test_the_output_of_a_response_is_the_input_of_the_next(openai_client, model):
    model.call_tools(("c1", "weather", '{"city":1}'), ("c2", "weather", "{}"), content="Hm.", reasoning="so")
    first = await ask(openai_client, tools=[TOOL])
    results = [{"type": "function_call_output", "call_id": call, "output": "rain"} for call in ("c1", "c2")]
    await ask(openai_client, tools=[TOOL], input=[{"role": "user", "content": "hi"}, *first.output, *results])
    sent_back = model.request.messages
    await ask(openai_client, tools=[TOOL], input=results, previous_response_id=first.id)

    assert [item.type for item in first.output] == ["reasoning", "message", "function_call", "function_call"]
    assert model.request.messages == sent_back
    assert sent_back[1]["tool_calls"][0]["function"]["arguments"] == '{"city":1}'
    assert sent_back[1]["reasoning_content"] == "so"
    assert model.request.tools == ({"name": "weather", "description": "Of a city.", "parameters": SCHEMA},)


async def test_previous_response_id_goes_on_with_the_conversation_without_its_instructions(openai_client, model):
    first = await ask(openai_client, input="one", instructions="be brief")
    second = await ask(openai_client, input="two", previous_response_id=first.id)
    await ask(openai_client, input="three", previous_response_id=second.id)
    contents = [message["content"] for message in model.request.messages]
    await ask(openai_client, input="other", previous_response_id=first.id)

    assert contents == ["one", "hello", "two", "hello", "three"]
    assert [message["content"] for message in model.request.messages] == ["one", "hello", "other"]


async def test_a_response_that_is_not_stored_or_of_another_episode_is_unknown(endpoint, openai_client, model):
    kept = await ask(openai_client)
    not_stored = await ask(openai_client, store=False)
    other = openai_client.with_options(api_key=endpoint.open(model))

    for client, response in ((openai_client, not_stored), (other, kept)):
        with pytest.raises(openai.BadRequestError, match="previous_response_id: no response"):
            await ask(client, previous_response_id=response.id)


@pytest.mark.parametrize(
    ("given", "choice", "named"),
    [
        ("none", "none", None),
        ("required", "required", None),
        (TOOL, "required", "weather"),
    ],
)
async def test_a_choice_of_tools_reaches_the_model(openai_client, model, given, choice, named):
    await ask(openai_client, tools=[TOOL], tool_choice=given, parallel_tool_calls=False)

    assert (model.request.tool_choice, model.request.named_tool) == (choice, named)
    assert not model.request.allows_parallel_calls


async def test_functions_of_a_namespace_are_called_by_their_own_names(openai_client, model):
    space = {"type": "namespace", "name": "mcp__city", "description": "Of cities.", "tools": [TOOL]}
    model.call_tools(("c1", "mcp__city__weather", "{}"), ("c2", "weather", "{}"))

    response = await ask(openai_client, tools=[space, TOOL])

    assert [tool["name"] for tool in model.request.tools] == ["mcp__city__weather", "weather"]
    assert model.request.tools[0]["parameters"] == SCHEMA
    inside, outside = response.output
    assert (inside.namespace, inside.name) == ("mcp__city", "weather")
    assert (outside.name, "namespace" in outside.model_dump(exclude_unset=True)) == ("weather", False)

    items = [item.model_dump(exclude_unset=True) for item in response.output]
    await ask(openai_client, tools=[space, TOOL], input=[{"role": "user", "content": "hi"}, *items])

    (_, reply) = model.request.messages
    assert [call["function"]["name"] for call in reply["tool_calls"]] == ["mcp__city__weather", "weather"]


async def test_a_tool_that_a_provider_would_run_names_the_remedy(openai_client):
    with pytest.raises(openai.BadRequestError, match="a tool that this service does not have: turn it off"):
        await ask(openai_client, tools=[{"type": "web_search"}])


async def test_a_stream_ends_with_the_whole_response(openai_client, model):
    model.call_tools(("c1", "weather", '{"city":1}'), content="Hm.", reasoning="so")
    async with openai_client.responses.stream(model="any", input="hi", tools=[TOOL]) as stream:
        events = [event async for event in stream]
        response = await stream.get_final_response()

    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.output_text == "Hm."
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = {event.type: event.delta for event in events if event.type.endswith(".delta")}
    assert deltas == {
        "response.reasoning_text.delta": "so",
        "response.output_text.delta": "Hm.",
        "response.function_call_arguments.delta": '{"city":1}',
    }


async def test_a_stored_stream_can_be_gone_on_with(openai_client, model):
    stream = await ask(openai_client, input="one", stream=True)
    last = [event async for event in stream][-1]
    await ask(openai_client, input="two", previous_response_id=last.response.id)

    assert [message["content"] for message in model.request.messages] == ["one", "hello", "two"]


async def test_a_reply_with_a_schema_is_parsed(openai_client, model):
    model.reply('{"name": "Oslo"}')
    parsed = await openai_client.responses.parse(model="any", input="hi", text_format=City)

    assert parsed.output_parsed == City(name="Oslo")
    assert model.request.reply_schema["properties"]["name"]["type"] == "string"


async def test_logprobs_are_in_the_text_where_they_are_included(openai_client, model):
    model.reply("a", logprobs=(("a", -0.5),))
    response = await ask(openai_client, include=["message.output_text.logprobs", "reasoning.encrypted_content"])

    assert response.output[0].content[0].logprobs[0].logprob == -0.5
    assert model.request.wants_logprobs


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "robot", "content": "hi"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
         "input[0].content[0].file_id"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"include": ["file_search_call.results"]}, "include[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice.type"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)  # fmt: skip
async def test_a_request_that_cannot_be_honoured_is_refused_by_the_name_of_its_field(openai_client, fields, name):
    body = {"model": "any", "input": "hi", **fields}
    with pytest.raises(openai.BadRequestError) as raised:
        await openai_client.post("/responses", cast_to=object, body=body)

    assert raised.value.param == name
    assert raised.value.body["message"].startswith(f"{name}: ")
