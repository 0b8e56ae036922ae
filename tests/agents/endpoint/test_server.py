"""The endpoint as a server: keys, errors, limits, programs that leave, and many programs at once."""

import asyncio
import json
import logging

import anthropic
import httpx
import openai
import pytest

from openenv.agents.endpoint.application import Application, Episode, hash_of
from openenv.agents.endpoint.requests import ModelAnswer, RequestRefused
from openenv.agents.endpoint.server import Endpoint
from tests.agents.endpoint.scripted import ScriptedModel

USER = {"role": "user", "content": "hi"}
CHAT = {"model": "any", "messages": [USER]}
PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
BODIES = dict(zip(PATHS, [CHAT, {"model": "any", "input": "hi"}, {**CHAT, "max_tokens": 5}], strict=True))


def message_of(response):
    return response.json()["error"]["message"]


@pytest.fixture
async def http(endpoint, key):
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=endpoint.base_url, headers=headers, timeout=10) as http:
        yield http


async def test_the_synchronous_clients_work_by_the_environments_variables_alone(endpoint, key, monkeypatch):
    for name, value in endpoint.environment_variables(key).items():
        monkeypatch.setenv(name, value)

    def ask():
        with openai.OpenAI() as client:
            chat = client.chat.completions.create(**CHAT).choices[0].message.content
            response = client.responses.create(model="any", input="hi").output_text
            chunks = [chunk.choices[0].delta.content for chunk in client.chat.completions.create(**CHAT, stream=True)]
            models = [model.id for model in client.models.list()]
        with anthropic.Anthropic() as client:
            message = client.messages.create(**CHAT, max_tokens=5).content[0].text
            with client.messages.stream(**CHAT, max_tokens=5) as stream:
                streamed = stream.get_final_text()
            also = [model.id for model in client.models.list()]
        return {chat, response, "".join(filter(None, chunks)), message, streamed}, models, also

    assert await asyncio.to_thread(ask) == ({"hello"}, ["openenv"], ["openenv"])


async def test_a_key_is_taken_from_the_path(endpoint, key):
    base = endpoint.base_url_with(key)
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="unused") as client:
        assert (await client.chat.completions.create(**CHAT)).choices[0].message.content == "hello"
    async with anthropic.AsyncAnthropic(base_url=base, api_key="unused") as client:
        assert (await client.messages.create(**CHAT, max_tokens=5)).content[0].text == "hello"
    async with httpx.AsyncClient() as http:
        assert [(await http.head(url)).status_code for url in (base, endpoint.base_url)] == [200, 200]


async def test_each_key_calls_its_own_model(endpoint, openai_client, model):
    other = ScriptedModel()
    other.reply("other")
    others = openai_client.with_options(api_key=endpoint.open(other))

    contents = [
        (await client.chat.completions.create(**CHAT)).choices[0].message.content for client in (openai_client, others)
    ]

    assert contents == ["hello", "other"]
    assert (len(model.requests), len(other.requests)) == (1, 1)


async def test_a_wrong_key_and_a_closed_one_are_refused(endpoint, key, openai_client, anthropic_client, model):
    with pytest.raises(openai.AuthenticationError, match="the key is not valid"):
        await openai_client.with_options(api_key="sk-wrong").chat.completions.create(**CHAT)
    endpoint.close(key)
    endpoint.close(key)
    with pytest.raises(openai.AuthenticationError) as raised:
        await openai_client.responses.create(model="any", input="hi")
    with pytest.raises(anthropic.AuthenticationError, match="authentication_error"):
        await anthropic_client.messages.create(**CHAT, max_tokens=5)

    assert raised.value.code == "invalid_api_key"
    assert model.requests == []


async def test_closing_a_key_ends_its_running_calls_with_an_error(endpoint, key, openai_client, model):
    model.hold.clear()
    running = asyncio.create_task(openai_client.chat.completions.create(**CHAT))
    await model.is_waiting.wait()
    endpoint.close(key)

    with pytest.raises(openai.AuthenticationError, match="its episode has ended"):
        await running
    await asyncio.wait_for(model.is_cancelled.wait(), 10)


async def test_a_key_that_is_closed_while_a_request_arrives_starts_no_call(model):
    episode = Episode(model, asyncio.get_running_loop())
    application = Application({hash_of("k"): episode}, max_body_bytes=1000, keep_alive_s=5, answer_timeout_s=60)
    sent = []

    async def receive():
        if episode.is_closed:
            await asyncio.Event().wait()
        episode.close()
        return {"type": "http.request", "body": json.dumps(CHAT).encode()}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": PATHS[0], "headers": [(b"x-api-key", b"k")]}
    await asyncio.wait_for(application(scope, receive, send), 10)

    assert (sent[0]["status"], model.requests) == (401, [])


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_that_has_begun_ends_with_an_error_of_its_api(endpoint, key, model, path):
    model.hold.clear()
    model.answers.append(RequestRefused("too long", field_name="messages", code="context_length_exceeded"))
    openai_client = openai.AsyncOpenAI(base_url=f"{endpoint.base_url}/v1", api_key=key)
    anthropic_client = anthropic.AsyncAnthropic(base_url=endpoint.base_url, api_key=key)

    async def read():
        client = anthropic_client if path == "/v1/messages" else openai_client
        create = {
            "/v1/chat/completions": openai_client.chat.completions.create,
            "/v1/responses": openai_client.responses.create,
            "/v1/messages": anthropic_client.messages.create,
        }[path]
        async with client:
            stream = await create(**BODIES[path], stream=True)  # returns at the first comment
            model.hold.set()
            return [event async for event in stream]

    with pytest.raises((openai.APIError, anthropic.APIStatusError), match="too long"):
        await read()


async def test_a_program_that_leaves_cancels_its_call(http, model):
    for body in (CHAT, {**CHAT, "stream": True}):
        model.hold.clear()
        model.is_waiting.clear()
        model.is_cancelled.clear()
        running = asyncio.create_task(http.post("/v1/chat/completions", json=body))
        await model.is_waiting.wait()
        running.cancel()

        await asyncio.wait_for(model.is_cancelled.wait(), 10)


async def test_a_comment_keeps_a_stream_of_openais_open(http, model):
    model.hold.clear()
    async with http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        lines = response.aiter_lines()
        first = await anext(lines)
        model.hold.set()
        rest = [line async for line in lines]

    assert first == ": the model works"
    assert rest[-2] == "data: [DONE]"


@pytest.mark.parametrize("path", PATHS)
async def test_a_refusal_of_the_model_has_its_status_and_field(http, model, path):
    for is_streamed in (False, True):
        model.answers.append(RequestRefused("temperature: only 1", status=422, field_name="temperature"))
        response = await http.post(path, json={**BODIES[path], "stream": is_streamed})

        assert (response.status_code, message_of(response)) == (422, "temperature: only 1")
        assert response.json()["error"].get("param", "temperature") == "temperature"


async def test_a_model_that_fails_is_not_called_again(endpoint, key, model, caplog):
    model.answers.append(RuntimeError("a secret of the model"))
    async with openai.AsyncOpenAI(base_url=f"{endpoint.base_url}/v1", api_key=key, max_retries=2) as client:
        with pytest.raises(openai.InternalServerError, match="the model failed with RuntimeError") as raised:
            await client.chat.completions.create(**CHAT)

    assert len(model.requests) == 1
    assert "secret" not in str(raised.value)
    assert "a secret of the model" in caplog.text


async def test_an_answer_with_too_few_replies_is_an_error(http, model):
    model.answers.append(ModelAnswer(()))
    response = await http.post("/v1/chat/completions", json=CHAT)

    assert response.status_code == 500


async def test_a_model_that_does_not_answer_in_time_is_cancelled(model):
    model.hold.clear()
    async with Endpoint(answer_timeout_s=0.05) as endpoint:
        headers = {"x-api-key": endpoint.open(model)}
        async with httpx.AsyncClient(base_url=endpoint.base_url, headers=headers) as http:
            response = await http.post("/v1/messages", json=CHAT)

    assert (response.status_code, response.json()["error"]["type"]) == (504, "api_error")
    assert "did not answer within 0.05 s" in message_of(response)
    await asyncio.wait_for(model.is_cancelled.wait(), 10)


async def test_errors_of_http_have_the_form_of_the_api(http):
    cases = [
        await http.post("/v1/chat/completions", content=b"{"),
        await http.post("/v1/responses", content=b"[]"),
        await http.post("/v1/messages", content=b"{"),
        await http.post("/v1/embeddings", json={}),
        await http.get("/v1/chat/completions"),
        await http.post("/v1/complete", json={}, headers={"anthropic-version": "2023-06-01"}),
        await http.post("/v1/messages/count_tokens", json={}),
    ]

    assert [case.status_code for case in cases] == [400, 400, 400, 404, 404, 404, 404]
    assert ["not JSON" in message_of(case) for case in cases[:3]] == [True, False, True]
    assert message_of(cases[1]) == "body: a list is given: give an object"
    assert [case.json().get("type") for case in cases] == [None, None, "error", None, None, "error", "error"]
    assert cases[3].json()["error"]["code"] == "unknown_url"
    assert "/v1/messages" in message_of(cases[3])


async def test_a_body_above_the_limit_is_refused(model):
    async with Endpoint(max_body_mb=0.001) as endpoint:
        key = endpoint.open(model)
        text = "x" * 3_000_000

        async def in_chunks():
            for _ in range(30):
                yield b"x" * 100_000

        async with anthropic.AsyncAnthropic(base_url=endpoint.base_url, api_key=key, max_retries=0) as client:
            with pytest.raises(anthropic.RequestTooLargeError, match="above the endpoint's limit of 1,000"):
                await client.messages.create(model="any", max_tokens=5, messages=[{"role": "user", "content": text}])
        async with httpx.AsyncClient(base_url=endpoint.base_url, headers={"x-api-key": key}) as http:
            response = await http.post("/v1/chat/completions", content=in_chunks())

    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")
    assert model.requests == []


async def test_256_programs_call_at_once(endpoint, model):
    model.hold.clear()
    keys = [endpoint.open(model) for _ in range(256)]
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=endpoint.base_url, limits=limits, timeout=60) as http:
        calls = [
            asyncio.create_task(
                http.post("/v1/chat/completions", json=CHAT, headers={"authorization": f"Bearer {key}"})
            )
            for key in keys
        ]
        while len(model.requests) < 256:
            model.is_waiting.clear()
            await model.is_waiting.wait()
        model.hold.set()
        responses = await asyncio.gather(*calls)

    assert {response.status_code for response in responses} == {200}


async def test_the_end_of_the_endpoint_ends_its_calls(model):
    model.hold.clear()
    async with Endpoint() as endpoint:
        client = openai.AsyncOpenAI(base_url=f"{endpoint.base_url}/v1", api_key=endpoint.open(model), max_retries=0)
        running = asyncio.create_task(client.chat.completions.create(**CHAT))
        await model.is_waiting.wait()

    with pytest.raises(openai.AuthenticationError):
        await running
    await client.close()
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(endpoint.base_url)


async def test_no_key_is_logged(endpoint, key, model, caplog):
    caplog.set_level(logging.DEBUG)
    model.answers.append(RuntimeError("broken"))
    async with httpx.AsyncClient() as http:
        for path in ("/v1/chat/completions", "/v1/unknown"):
            await http.post(f"{endpoint.base_url_with(key)}{path}", json=CHAT)
    lines = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]

    assert any("did not answer" in line for line in lines)
    assert not any(key in line for line in lines)
