"""A provider's model answers the calls of a program that never sees the provider's key."""

import openai
import pytest

from openenv.agents.endpoint.requests import CalledTool, ModelReply, ModelRequest, RequestRefused
from openenv.agents.endpoint.upstream import UpstreamModel
from tests.agents.llm.llm_service import llm_service

USER = {"role": "user", "content": "hi"}
TOOL = {"name": "weather", "description": "", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
def service():
    with llm_service() as service:
        yield service


@pytest.fixture
async def upstream(service):
    async with UpstreamModel(f"{service.url}/v1", "their-model", "sk-provider") as upstream:
        yield upstream


async def test_a_program_gets_the_answer_without_the_providers_key(endpoint, service, upstream):
    service.answers = [(200, {
        "choices": [{"message": {"content": "Oslo."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    })]  # fmt: skip
    key = endpoint.open(upstream)
    async with openai.AsyncOpenAI(base_url=f"{endpoint.base_url}/v1", api_key=key) as client:
        completion = await client.chat.completions.create(model="any", messages=[USER], temperature=0.5)

    path, headers, body = service.asked[0]
    assert (completion.choices[0].message.content, completion.usage.total_tokens) == ("Oslo.", 10)
    assert (path, headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-provider")
    assert body == {"model": "their-model", "messages": [USER], "temperature": 0.5}
    assert key not in str(headers)


async def test_the_service_receives_all_of_a_request(service, upstream):
    service.reply_with("a")
    schema = {"type": "object"}
    await upstream.answer(ModelRequest(
        (USER,), tools=(TOOL,), tool_choice="required", named_tool="weather", allows_parallel_calls=False,
        reply_schema=schema, num_replies=2, max_tokens=5, stop=("END",), sampling={"top_p": 0.9}, wants_logprobs=True,
    ))  # fmt: skip

    assert service.body == {
        "model": "their-model", "messages": [USER], "top_p": 0.9, "n": 2, "max_tokens": 5, "stop": ["END"],
        "logprobs": True, "tools": [{"type": "function", "function": TOOL}], "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}},
    }  # fmt: skip


async def test_every_part_of_the_services_answer_is_read(service, upstream):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"a":1}'}}
    token = {"token": "Hm", "logprob": -0.5}
    message = {"content": "Hm", "reasoning_content": "so", "tool_calls": [call]}
    stopped = {"message": {"content": "b"}, "finish_reason": "stop", "stop_reason": "END"}
    service.answers = [(200, {
        "choices": [{"message": message, "finish_reason": "tool_calls", "logprobs": {"content": [token]}}, stopped],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5},
    })]  # fmt: skip

    answer = await upstream.answer(ModelRequest((USER,), num_replies=2))

    calls = (CalledTool("c1", "weather", '{"a":1}'),)
    assert answer.num_prompt_tokens == 7
    assert answer.replies == (
        ModelReply("Hm", "so", calls, "tool_calls", num_tokens=5, logprobs=(("Hm", -0.5),)),
        ModelReply("b", stopped_by="END"),
    )


@pytest.mark.parametrize(("status", "passed"), [(400, 400), (422, 422), (401, 502), (404, 502)])
async def test_an_error_of_the_service_is_the_programs_where_it_caused_it(service, upstream, status, passed):
    service.answers = [(status, {"error": {"message": "refused sk-provider"}})]
    with pytest.raises(RequestRefused, match="refused") as raised:
        await upstream.answer(ModelRequest((USER,)))

    assert raised.value.status == passed
    assert "sk-provider" not in str(raised.value)


async def test_an_answer_that_is_none_of_the_api_is_named(service, upstream):
    service.answers = [(200, {"choices": [{"text": "old"}]})]
    with pytest.raises(RequestRefused, match="does not match its API") as raised:
        await upstream.answer(ModelRequest((USER,)))

    assert raised.value.status == 502


async def test_a_model_outside_of_its_with_block_names_the_remedy():
    with pytest.raises(RuntimeError, match="async with"):
        await UpstreamModel("http://localhost:1/v1", "any").answer(ModelRequest((USER,)))
