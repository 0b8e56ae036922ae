# /// script
# dependencies = ["crewai", "crewai-tools[mcp]"]
# ///
"""An agent of CrewAI, with the environment's functions as its tools."""

import os

from crewai import LLM, Agent, Crew, Task
from crewai_tools import MCPServerAdapter

service = {"base_url": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
with MCPServerAdapter({"url": os.environ["OPENENV_MCP_URL"], "transport": "streamable-http"}) as tools:
    player = Agent(
        role="player",
        goal="open the door",
        backstory="",
        tools=tools,
        llm=LLM(model="openai/policy", **service),
        max_iter=4,
    )
    task = Task(description=os.environ["OPENENV_OBSERVATION"], expected_output="open", agent=player)
    Crew(agents=[player], tasks=[task]).kickoff()
