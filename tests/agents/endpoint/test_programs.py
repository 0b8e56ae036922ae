"""An agent of another library runs its loop against the endpoint."""

import asyncio

import smolagents

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
