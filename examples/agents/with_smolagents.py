"""An agent of smolagents, with the environment's functions as its tools."""

from smolagents import OpenAIModel, ToolCallingAgent, ToolCollection


def play(task):
    model = OpenAIModel(model_id="policy", api_base=task.base_url, api_key=task.api_key)
    server = {"url": task.mcp_url, "transport": "streamable-http"}
    with ToolCollection.from_mcp(server, trust_remote_code=True, structured_output=False) as collection:
        agent = ToolCallingAgent(tools=[*collection.tools], model=model, max_steps=5, verbosity_level=0)
        agent.prompt_templates["system_prompt"] = "Call functions. The last is final_answer."  # its own has 2,000 words
        agent.run(task.observation)
