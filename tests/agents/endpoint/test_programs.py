"""Agents of other libraries run their loops against the endpoint."""

import asyncio

import pytest
import smolagents

import agents

TASK = "What is the weather in Oslo?"


@smolagents.tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name.
    """
    return f"rain in {city}"


async def test_smolagents_calls_its_tool_and_answers(endpoint, key, model):
    model.call_tools(("c1", "weather", '{"city": "Oslo"}'))
    model.call_tools(("c2", "final_answer", '{"answer": "It rains."}'))

    def run():
        own = smolagents.OpenAIServerModel("any", api_base=f"{endpoint.base_url}/v1", api_key=key)
        return smolagents.ToolCallingAgent([weather], own, verbosity_level=0).run(TASK)

    assert await asyncio.to_thread(run) == "It rains."
    assert {tool["name"] for tool in model.request.tools} == {"weather", "final_answer"}
    assert TASK in str(model.requests[0].messages)
    assert "rain in Oslo" in str(model.requests[1].messages)


@pytest.mark.parametrize("api", [agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_openais_agents_call_their_tools_and_answer(openai_client, model, api, is_streamed):
    model.call_tools(("c1", "weather", '{"city": "Oslo"}'), ("c2", "weather", '{"city": "Bergen"}'), reasoning="hm")
    model.reply("It rains.")
    tool = agents.function_tool(lambda city: weather(city), name_override="weather", strict_mode=False)
    agent = agents.Agent("forecaster", instructions="Be brief.", tools=[tool], model=api("any", openai_client))
    settings = agents.RunConfig(tracing_disabled=True)

    if is_streamed:
        result = agents.Runner.run_streamed(agent, TASK, run_config=settings)
        async for _ in result.stream_events():
            pass
    else:
        result = await agents.Runner.run(agent, TASK, run_config=settings)

    assert result.final_output == "It rains."
    roles = [message["role"] for message in model.request.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert [message["content"] for message in model.request.messages[3:]] == ["rain in Oslo", "rain in Bergen"]
