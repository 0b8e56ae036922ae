"""Replies that are trained come from the model's whole distribution, and an engine's answer has one form."""

import pytest
from openenv.core.harness.capture import InferenceClient, UpstreamError
from openenv.core.harness.capture.upstream import (
    UpstreamHTTPError,
    UpstreamTransportError,
    auth_headers,
    normalise_engine_base,
    normalize_response,
    openai_api_base,
    prepare_request,
    training_sampling,
    truncating_params,
)

from openenv.hosting.server_process import free_port
from tests.agents.capture.engine import CharacterEngine

WHOLE = {
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}  # fmt: skip


def test_a_policy_of_training_is_the_whole_distribution_at_a_temperature():
    assert training_sampling({"temperature": 1, "top_k": 0, "top_p": 1}) == {"temperature": 1.0, **WHOLE}
    assert training_sampling(None) == {}


@pytest.mark.parametrize(
    ("sampling", "problem"),
    [
        ({"temperature": 0}, r"sampling\.temperature=0"),
        ({}, r"sampling\.temperature=None"),
        ({"temperature": True}, r"sampling\.temperature=True"),
        ({"temperature": 1.0, "top_p": 0.9}, r"sampling\.top_p=0\.9: .* need 1\.0"),
        ({"temperature": 1.0, "seed": 1}, r"sampling\.seed is not known"),
        ([], r"must be a dictionary"),
    ],
)
def test_another_policy_is_refused_by_the_name_of_its_parameter(sampling, problem):
    with pytest.raises(ValueError, match=problem):
        training_sampling(sampling)


def test_a_request_is_made_to_return_tokens_as_far_as_the_engine_can():
    asked = {"messages": [], "top_p": 0.5, "top_k": 0, "top_logprobs": None}

    assert truncating_params(asked) == {"top_p": 0.5}
    assert prepare_request(dict(asked), served_model="m") == {
        "messages": [], "top_p": 1.0, "top_k": 0, "top_logprobs": 0, "logprobs": True, "return_token_ids": True,
        "model": "m",
    }  # fmt: skip
    assert prepare_request(dict(asked), capture_level="logprobs") == {**asked, "top_logprobs": 0, "logprobs": True}
    assert prepare_request(dict(asked), capture_level="text") == asked


def test_prompt_tokens_of_a_choice_and_thinking_stand_where_vllm_has_them():
    choice = {"prompt_token_ids": [1, 2], "message": {"content": "a", "reasoning": "hm"}}

    found = normalize_response({"choices": [choice]})
    assert found["prompt_token_ids"] == [1, 2]
    assert found["choices"][0]["message"] == {"content": "a", "reasoning_content": "hm"}


def test_log_probabilities_of_other_tokens_are_dropped():
    def choice(*tokens):
        return {"token_ids": [7, 8], "logprobs": {"content": [{"token": token, "logprob": -1} for token in tokens]}}

    assert normalize_response({"choices": [choice("token_id:8", "token_id:7")]})["choices"][0]["logprobs"] is None
    assert normalize_response({"choices": [choice("token_id:7", "token_id:8")]})["choices"][0]["logprobs"]
    assert normalize_response({"choices": [choice("a", "b")]})["choices"][0]["logprobs"]


def test_addresses_and_keys_are_those_of_openais_clients():
    assert openai_api_base("http://localhost:8000/") == "http://localhost:8000/v1"
    assert openai_api_base("https://a.example/v1beta/openai/") == "https://a.example/v1beta/openai"
    assert normalise_engine_base("http://localhost:8000/v1/") == "http://localhost:8000"
    assert auth_headers("k") == {"Authorization": "Bearer k"}
    assert auth_headers("k", "x-api-key") == {"x-api-key": "k"}
    assert auth_headers(None) == {}


async def test_failures_of_an_engine_have_one_class_each(serving):
    refusing = InferenceClient(serving(CharacterEngine(replies=[400]).app()), served_model="m")
    missing = InferenceClient(f"http://127.0.0.1:{free_port()}", served_model="m")
    with pytest.raises(UpstreamHTTPError, match="too long") as refused:
        await refusing.completion({"messages": [{"role": "user", "content": "a"}]})
    assert (refused.value.status_code, isinstance(refused.value, UpstreamError)) == (400, True)
    assert (await refusing.list_models())["data"] == [{"id": "characters"}]
    with pytest.raises(UpstreamTransportError, match="start the"):
        await missing.completion({"messages": []})
    with pytest.raises(UpstreamTransportError, match="start the engine"):
        await missing.list_models()
    for client in (refusing, missing):
        await client.aclose()


def test_an_engine_of_another_api_is_refused():
    with pytest.raises(ValueError, match="provider='anthropic'"):
        InferenceClient("http://localhost", provider="anthropic")
