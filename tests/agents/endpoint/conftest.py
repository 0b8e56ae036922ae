"""An endpoint with an open episode, and the official clients as its program."""

import anthropic
import openai
import pytest

from openenv.agents.endpoint.server import Endpoint
from tests.agents.endpoint.scripted import ScriptedModel


@pytest.fixture
def model():
    return ScriptedModel()


@pytest.fixture
async def endpoint():
    async with Endpoint(keep_alive_s=0.05) as endpoint:
        yield endpoint


@pytest.fixture
async def key(endpoint, model):
    return endpoint.open(model)


@pytest.fixture
async def openai_client(endpoint, key):
    async with openai.AsyncOpenAI(base_url=f"{endpoint.base_url}/v1", api_key=key, max_retries=0) as client:
        yield client


@pytest.fixture
async def anthropic_client(endpoint, key):
    async with anthropic.AsyncAnthropic(base_url=endpoint.base_url, api_key=key, max_retries=0) as client:
        yield client
