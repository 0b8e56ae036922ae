"""Clients of language models, against a service on a real port."""

import asyncio

import httpx
import pytest

from openenv.agents.llm import http
from openenv.agents.llm.client import (
    AnthropicClient,
    LLMClient,
    LLMError,
    LLMResponse,
    OpenAIClient,
    ToolCall,
    UnreadableToolCall,
    create_llm_client,
)
from openenv.core.errors import OpenEnvError
from tests.agents.llm.llm_service import llm_service

KEY = "sk-very-secret"
TOOL = {
    "name": "add",
    "description": "Adds",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 + 2?"},
    LLMResponse("Adding.", [ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "add", {"a": 2})]).to_message_dict(),
    {"role": "tool", "tool_call_id": "c1", "content": "1"},
    {"role": "tool", "tool_call_id": "c2", "content": "3"},
    {"role": "assistant", "content": "3"},
]


@pytest.fixture
def service():
    with llm_service() as running:
        yield running


def openai_answer(content):
    return {"choices": [{"message": {"content": content}}]}


def anthropic_answer(*blocks):
    return [(200, {"content": list(blocks)})]


async def test_a_prompt_is_completed_by_an_openai_compatible_service(service):
    service.reply_with("four")
    client = OpenAIClient(service.url, None, "tiny", api_key=KEY, system_prompt="Be brief.")
    assert await client.complete("2 + 2?") == "four"

    path, headers, body = service.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}],
        "temperature": 0.0,
        "max_tokens": 256,
    }


async def test_a_prompt_is_completed_by_anthropics_service(service):
    service.answers = anthropic_answer({"type": "text", "text": "fo"}, {"type": "text", "text": "ur"})
    client = AnthropicClient(service.url, None, "tiny", api_key=KEY, system_prompt="Be brief.")
    assert await client.complete("2 + 2?", max_tokens=5) == "four"

    path, headers, body = service.asked[0]
    assert path == "/v1/messages"
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "2 + 2?"}],
        "system": "Be brief.",
        "temperature": 0.0,
        "max_tokens": 5,
    }


@pytest.mark.parametrize("client_cls", [OpenAIClient, AnthropicClient])
async def test_without_a_key_none_is_sent(service, client_cls):
    service.answers = [(200, {"choices": [{"message": {"content": None}}], "content": []})]
    assert await client_cls(service.url, None, "tiny").complete("Hello?") == ""
    assert not {"authorization", "x-api-key"} & service.asked[0][1].keys()


async def test_parameters_of_a_request_replace_those_of_the_client(service):
    service.reply_with("yes")
    await OpenAIClient(service.url, None, "tiny", temperature=0.5).complete(
        "?", temperature=1.0, max_tokens=3, top_p=0.9
    )
    assert (service.body["temperature"], service.body["max_tokens"], service.body["top_p"]) == (1.0, 3, 0.9)


async def test_reasoning_models_get_their_own_limit_and_no_temperature(service):
    service.reply_with("yes")
    await OpenAIClient(service.url, None, "o3", use_max_completion_tokens=True).complete("?", temperature=1.0)
    assert service.body["max_completion_tokens"] == 256
    assert not {"max_tokens", "temperature"} & service.body.keys()


async def test_tools_are_offered_and_calls_read_in_the_openai_form(service):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    service.answers = [(200, {"choices": [{"message": {"content": None, "tool_calls": [call]}}]})]
    answer = await OpenAIClient(service.url, None, "tiny").complete_with_tools(CONVERSATION[:2], [TOOL])
    assert answer == LLMResponse("", [ToolCall("c1", "add", {"a": 1})])
    assert answer.to_message_dict() == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert service.body["messages"] == CONVERSATION[:2]
    assert service.body["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": TOOL["inputSchema"]}}
    ]


async def test_tools_are_offered_and_calls_read_in_anthropics_form(service):
    service.answers = anthropic_answer(
        {"type": "text", "text": "Adding."}, {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
    )
    client = AnthropicClient(service.url, None, "tiny", system_prompt="Not this one.")
    answer = await client.complete_with_tools(CONVERSATION, [TOOL])
    assert answer == LLMResponse("Adding.", [ToolCall("c1", "add", {"a": 1})])
    assert service.body["system"] == "Be brief."
    assert service.body["tools"] == [{"name": "add", "description": "Adds", "input_schema": TOOL["inputSchema"]}]
    assert service.body["messages"] == [
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Adding."},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "add", "input": {"a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "3"},
            ],
        },
        {"role": "assistant", "content": "3"},
    ]


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        (None, {}, []),
        ({"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {}}}]}, {"a": {}}, []),
        ({"anyOf": [{"type": "string"}]}, {}, []),
        ({"properties": {"b": {}}, "allOf": [{"properties": {"a": {}}, "required": ["a"]}]}, {"a": {}, "b": {}}, ["a"]),
    ],
)
async def test_a_tools_schema_is_offered_as_one_object(service, schema, properties, required):
    service.reply_with("yes")
    await OpenAIClient(service.url, None, "tiny").complete_with_tools([], [{"name": "t", "inputSchema": schema}])
    offered = service.body["tools"][0]["function"]["parameters"]
    assert (offered["type"], offered["properties"], offered.get("required", [])) == ("object", properties, required)


async def test_a_role_that_no_message_has_is_refused(service):
    with pytest.raises(ValueError, match="role='robot': use system, user, assistant or tool"):
        await AnthropicClient(service.url, None, "tiny").complete_with_tools([{"role": "robot", "content": ""}], [])


async def test_a_call_whose_arguments_are_cut_short_is_an_error_that_shows_them(service):
    call = {"id": "c1", "function": {"name": "add", "arguments": '{"a": '}}
    service.answers = [(200, {"choices": [{"message": {"tool_calls": [call]}}]})]
    with pytest.raises(LLMError, match=r"add with arguments that are not JSON.*max_tokens.*\{\"a\": "):
        await OpenAIClient(service.url, None, "tiny").complete_with_tools([], [TOOL])


async def test_a_call_without_arguments_has_none(service):
    call = {"id": "c1", "function": {"name": "now", "arguments": ""}}
    service.answers = [(200, {"choices": [{"message": {"tool_calls": [call]}}]})]
    answer = await OpenAIClient(service.url, None, "tiny").complete_with_tools([], [{"name": "now"}])
    assert answer.tool_calls == [ToolCall("c1", "now", {})]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(400, "change the request"), (401, "valid api_key"), (404, "check endpoint and model"), (413, "shorten it")],
)
async def test_a_refusal_names_the_status_the_remedy_and_the_services_message(service, status, remedy):
    service.answers = [(status, "because of that")]
    with pytest.raises(LLMError, match=rf"returned {status}: .*{remedy}.* because of that") as raised:
        await OpenAIClient(service.url, None, "tiny").complete("?")
    assert raised.value.status == status
    assert len(service.asked) == 1
    assert isinstance(raised.value, OpenEnvError)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_crowded_or_failing_service_is_asked_again(service, status):
    service.answers = [(status, "not now"), (status, "not now"), (200, {"choices": [{"message": {"content": "yes"}}]})]
    assert await OpenAIClient(service.url, None, "tiny").complete("?") == "yes"
    assert len(service.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": "Provider returned error", "code": 429}, "choices": None},
        {"error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"error": "upstream connect error"},
        {"choices": [{"error": {"code": 502, "message": "Bad gateway"}, "message": {"content": ""}}]},
    ],
)
@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_an_error_object_under_status_200_is_a_failure_that_is_retried(service, answer):
    service.answers = [(200, answer), (200, {"choices": [{"message": {"content": "yes"}}]})]
    assert await OpenAIClient(service.url, None, "tiny").complete("?") == "yes"
    assert len(service.asked) == 2


async def test_an_error_object_that_names_a_refusal_is_not_retried(service):
    service.answers = [(200, {"error": {"message": "filtered", "code": 400}})]
    with pytest.raises(LLMError, match=r"returned 400 under status 200: change the request.*filtered") as raised:
        await OpenAIClient(service.url, None, "tiny").complete("?")
    assert (raised.value.status, len(service.asked)) == (400, 1)


@pytest.mark.parametrize(
    "answer",
    [
        {"object": "error", "message": "busy", "code": 503},
        [{"error": {"code": 429, "message": "busy"}}],
        {"choices": []},
        {"choices": None},
        "",
        "<html>bad gateway</html>",
        '{"choices": [{"mess',
        '{"a": ' * 100_000,
    ],
)
@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_a_body_under_status_200_that_is_no_reply_is_a_failure_that_is_retried(service, answer):
    service.answers = [(200, answer), (200, openai_answer("yes"))]

    assert await OpenAIClient(service.url, None, "tiny").complete("?") == "yes"


@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_a_body_that_cannot_be_decompressed_is_a_failure_that_is_retried(service):
    service.headers = {"content-encoding": "gzip"}
    service.answers = [(200, "no gzip"), (200, openai_answer("yes"))]

    assert await OpenAIClient(service.url, None, "tiny").complete("?") == "yes"


@pytest.mark.parametrize(
    "error", [{"type": "invalid_request_error"}, {"code": "content_filter"}, {"code": "9" * 5000, "type": "invalid"}]
)
async def test_an_error_object_that_names_a_refusal_by_a_word_is_not_retried(service, error):
    service.answers = [(200, {"error": error})]

    with pytest.raises(LLMError, match="returned 400 under status 200: change the request"):
        await OpenAIClient(service.url, None, "tiny").complete("?")
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "usage",
    [{"prompt_tokens": None, "completion_tokens": None}, {"total_tokens": 3}, {"prompt_tokens": "x"}, [1, 2], "x"],
)
@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_a_reply_whose_tokens_are_not_counted_is_a_reply(service, usage):
    service.answers = [(200, {**openai_answer("yes"), "usage": usage})]

    response = await OpenAIClient(service.url, None, "tiny").complete_with_tools([], [])

    assert (response.content, response.usage) == ("yes", None)


@pytest.mark.parametrize(
    ("function", "args"), [({"arguments": {"a": 1}}, {"a": 1}), ({}, {}), ({"arguments": None}, {})]
)
@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_a_call_without_an_id_and_with_arguments_as_an_object_is_read(service, function, args):
    call = {"function": {"name": "add", **function}}
    service.answers = [(200, {"choices": [{"message": {"content": None, "tool_calls": [call]}}]})]

    response = await OpenAIClient(service.url, None, "tiny").complete_with_tools([], [])

    assert [(call.id, call.name, call.args) for call in response.tool_calls] == [("call_0", "add", args)]


@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_arguments_that_are_nested_too_deep_are_a_call_that_cannot_be_read(service):
    call = {"id": "1", "function": {"name": "add", "arguments": "[" * 100_000}}
    service.answers = [(200, {"choices": [{"message": {"content": None, "tool_calls": [call]}}]})]

    with pytest.raises(UnreadableToolCall, match="the model called add with arguments that are not JSON"):
        await OpenAIClient(service.url, None, "tiny").complete_with_tools([], [])


@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_a_reply_that_a_content_filter_stopped_is_an_error_of_the_service(service):
    service.answers = [(200, {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]})]

    with pytest.raises(LLMError, match="content filter stopped it"):
        await OpenAIClient(service.url, None, "tiny").complete("?")


@pytest.mark.parametrize("content", ["a\ud800b", [{"type": "text", "text": "a\ud800b"}]])
@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_half_a_character_in_a_reply_is_a_question_mark(service, content):
    service.answers = [(200, {"choices": [{"message": {"content": content}}]})]

    assert await OpenAIClient(service.url, None, "tiny").complete("?") == "a?b"


async def test_a_service_at_another_place_is_an_error_that_names_the_place(service):
    service.headers = {"location": "https://elsewhere/v1"}
    service.answers = [(307, "")]

    with pytest.raises(LLMError, match="the service is at another place, https://elsewhere/v1: correct endpoint"):
        await OpenAIClient(service.url, None, "tiny").complete("?")


@pytest.mark.parametrize(
    ("retry_after", "wait_s"),
    [("3", 3.0), ("Thu, 01 Jan 1970 00:01:40 GMT", 5.0), ("nan", 0.5), ("soon", 0.5), ("-1", 0.0), ("9999", 30.0)],
)
def test_a_service_is_asked_again_after_the_seconds_or_at_the_date_that_it_names(monkeypatch, retry_after, wait_s):
    monkeypatch.setattr("time.time", lambda: 95.0)

    assert http._wait_s(httpx.Response(429, headers={"retry-after": retry_after}), 1) == wait_s


@pytest.mark.parametrize("num_resets", [1, 2])
@pytest.mark.finding("one failed call ends one episode, and an evaluation goes on where it stopped")
async def test_a_connection_that_is_reset_is_opened_again(service, num_resets):
    service.reply_with("yes")
    service.num_resets = num_resets
    assert await OpenAIClient(service.url, None, "tiny").complete("?") == "yes"
    assert len(service.asked) == 1 + num_resets


async def test_a_service_that_resets_each_connection_is_an_error_that_names_it(service):
    service.num_resets = 3
    with pytest.raises(LLMError, match=rf"{service.url}/v1/chat/completions cannot be reached"):
        await OpenAIClient(service.url, None, "tiny").complete("?")


async def test_an_answer_that_the_limit_of_tokens_ended_is_cut_off(service):
    service.answers = [(200, {"content": [{"type": "text", "text": "1"}], "stop_reason": "max_tokens"})]
    answer = await AnthropicClient(service.url, None, "tiny").complete_with_tools(CONVERSATION[:2], [])
    assert answer == LLMResponse("1", is_cut_off=True)


async def test_a_service_that_stays_crowded_is_asked_three_times(service):
    service.answers = [(429, "not now")]
    with pytest.raises(LLMError, match="429: too many requests"):
        await OpenAIClient(service.url, None, "tiny").complete("?")
    assert len(service.asked) == 3


@pytest.mark.parametrize("answer", ["<html>", "[]", {"choices": []}, {"choices": [{"message": None}]}, {"text": "yes"}])
@pytest.mark.parametrize("client_cls", [OpenAIClient, AnthropicClient])
async def test_an_answer_of_another_form_is_an_error_that_shows_it(service, client_cls, answer):
    service.answers = [(200, answer)]
    with pytest.raises(LLMError, match="does not match its API: check endpoint") as raised:
        await client_cls(service.url, None, "tiny").complete("?")
    assert str(answer) in str(raised.value)


async def test_an_endpoint_without_a_service_is_an_error_that_names_it():
    with llm_service() as service:
        url = service.url
    with pytest.raises(LLMError, match=rf"{url}/v1/chat/completions cannot be reached .*start the service") as raised:
        await OpenAIClient(url, None, "tiny").complete("?")
    assert raised.value.status is None


async def test_a_service_that_does_not_answer_in_time_is_an_error_with_the_limit(service):
    service.reply_with("late")
    service.hold.clear()
    with pytest.raises(LLMError, match=r"within 0\.05 s: raise timeout_s"):
        async with asyncio.timeout(2):
            await OpenAIClient(service.url, None, "tiny", timeout_s=0.05).complete("?")


@pytest.mark.parametrize("answer", [(401, f"wrong key {KEY}"), (200, f"wrong key {KEY}"), (200, {"key": KEY})])
@pytest.mark.parametrize("client_cls", [OpenAIClient, AnthropicClient])
async def test_the_key_is_never_shown(service, client_cls, answer):
    service.answers = [answer]
    client = client_cls(service.url, None, "tiny", api_key=KEY)
    with pytest.raises(LLMError, match=r"\*\*\*") as raised:
        await client.complete("?")
    assert KEY not in str(raised.value) + repr(raised.value) + repr(client)


def test_a_client_may_be_used_in_one_event_loop_after_another(service):
    service.reply_with("yes")
    client = OpenAIClient(service.url, None, "tiny")
    assert [asyncio.run(client.complete("?")) for _ in range(2)] == ["yes", "yes"]


@pytest.mark.parametrize(
    ("endpoint", "port", "base_url"),
    [
        ("http://localhost", 8000, "http://localhost:8000"),
        ("http://localhost:8000/", None, "http://localhost:8000"),
        ("http://localhost:8000", 8000, "http://localhost:8000"),
        ("https://host/gateway/v1/", 8443, "https://host:8443/gateway/v1"),
        ("https://host", None, "https://host"),
        ("http://[::1]", 80, "http://[::1]:80"),
    ],
)
def test_endpoint_and_port_make_one_url(endpoint, port, base_url):
    assert OpenAIClient(endpoint, port, "tiny").base_url == base_url


async def test_an_endpoint_with_a_path_is_taken_as_it_is(service):
    service.reply_with("yes")
    await OpenAIClient("http://127.0.0.1/openai/v2", service.port, "tiny").complete("?")
    assert service.asked[0][0] == "/openai/v2/chat/completions"


@pytest.mark.parametrize(
    ("endpoint", "port", "reason"),
    [
        ("localhost", 8000, "must begin with http"),
        ("ftp://host", None, "must begin with http"),
        ("http://", 80, "and a host"),
        ("http://host?a=1", None, "a query or fragment"),
        ("http://host:80", 81, "names port 80, and port=81 another"),
        ("http://host", 0, "port=0 is not from 1 to 65535"),
        ("http://host:99999", None, "not a URL with a port"),
    ],
)
@pytest.mark.parametrize("client_cls", [OpenAIClient, AnthropicClient])
def test_an_endpoint_that_is_none_is_refused_when_the_client_is_made(client_cls, endpoint, port, reason):
    with pytest.raises(ValueError, match=reason):
        client_cls(endpoint, port, "tiny")


@pytest.mark.parametrize("endpoint", ["http://me:hush@host", "http://me:hu/hush@host", "me:hush@host"])
def test_a_password_in_an_endpoint_is_refused_and_not_repeated(endpoint):
    with pytest.raises(ValueError, match=r"endpoint='(http://)?\*\*\*@host'") as raised:
        OpenAIClient(endpoint, None, "tiny")
    assert "hu" not in str(raised.value).replace("http", "")


@pytest.mark.parametrize(
    ("provider", "client_cls", "base_url"),
    [
        ("openai", OpenAIClient, "https://api.openai.com:443"),
        ("Anthropic", AnthropicClient, "https://api.anthropic.com:443"),
    ],
)
def test_a_hosted_provider_is_found_by_name(provider, client_cls, base_url):
    client = create_llm_client(provider, "tiny", KEY, system_prompt="Be brief.", temperature=0.5)
    assert type(client) is client_cls
    assert client.base_url == base_url
    assert (client.model, client.system_prompt, client.temperature, client.max_tokens) == (
        "tiny",
        "Be brief.",
        0.5,
        4096,
    )


@pytest.mark.parametrize(("model", "is_reasoning"), [("gpt-4o", False), ("o3-mini", True), ("gpt-5-mini", True)])
def test_openais_reasoning_models_are_known_by_their_names(model, is_reasoning):
    assert create_llm_client("openai", model, KEY).use_max_completion_tokens is is_reasoning


def test_an_unknown_provider_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match="provider='mars': there is openai and anthropic"):
        create_llm_client("mars", "tiny", KEY)


async def test_a_client_of_ones_own_needs_complete_alone():
    class Echo(LLMClient):
        async def complete(self, prompt, **kwargs):
            return prompt

    echo = Echo("http://nowhere", 0)
    assert await echo.complete("hello") == "hello"
    with pytest.raises(NotImplementedError, match="Echo does not support tools"):
        await echo.complete_with_tools([], [])
