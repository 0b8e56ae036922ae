"""A resources server that is written with NeMo Gym, its simple agent, and a model that plays the scripts of a file.

It runs in the Python of NeMo Gym: `python nemo_gym_peer.py PORT SCRIPTS`, and listens on PORT (resources server),
PORT + 1 (agent) and PORT + 2 (model). SCRIPTS is a JSON file: the first message of a row -> calls and a last message.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import BaseServerConfig, ModelServerRef, ResourcesServerRef
from nemo_gym.server_utils import (
    SESSION_ID_KEY,
    GlobalAIOHTTPAsyncClientConfig,
    ServerClient,
    set_global_aiohttp_client,
)
from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict, Field
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig


class Seed(BaseModel):
    start: int


class Amount(BaseModel):
    amount: int


class Verify(BaseVerifyRequest):
    goal: int


class Verified(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class Counter(SimpleResourcesServer):
    """A counter for each session. The reward is 1 at the goal, and a tenth less for each call."""

    config: BaseResourcesServerConfig
    counters: dict[str, int] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        app.post("/value")(self.value)
        return app

    async def seed_session(self, request: Request, body: Seed) -> BaseSeedSessionResponse:  # type: ignore[override]
        self.counters[request.session[SESSION_ID_KEY]] = body.start
        return BaseSeedSessionResponse()

    async def add(self, request: Request, body: Amount) -> dict[str, int]:
        session = request.session[SESSION_ID_KEY]
        self.counters[session] += body.amount
        return {"value": self.counters[session]}

    async def value(self, request: Request) -> dict[str, int]:
        return {"value": self.counters[request.session[SESSION_ID_KEY]]}

    async def verify(self, request: Request, body: Verify) -> Verified:  # type: ignore[override]
        calls = sum(item.type == "function_call" for item in body.response.output)
        is_there = self.counters[request.session[SESSION_ID_KEY]] == body.goal
        (content,) = body.response.output[-1].content
        return Verified(**body.model_dump(), reward=is_there - 0.1 * calls, num_words=len(content.text.split()))


def model_app(scripts: dict[str, Any]) -> FastAPI:
    """A model that makes the calls of a script, one a request, and then writes its message."""
    app = FastAPI()

    @app.post("/v1/responses")
    async def respond(request: Request) -> dict[str, Any]:
        items = (await request.json())["input"]
        script = scripts[items[0]["content"]]
        made = sum(item.get("type") == "function_call" for item in items)
        if made < len(script["calls"]):
            name, arguments = script["calls"][made]
            item = {
                "type": "function_call",
                "call_id": f"call_{made}",
                "name": name,
                "arguments": json.dumps(arguments),
            }
        else:
            content = [{"type": "output_text", "text": script["message"], "annotations": []}]
            item = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
        return {
            "id": "r", "object": "response", "created_at": 0, "model": "script", "output": [item],
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
        }  # fmt: skip

    return app


async def main(port: int, scripts: dict[str, Any]) -> None:
    """Serve all three until the process ends."""
    ports = {"resources": port, "agent": port + 1, "model": port + 2}
    kinds = {"resources": "resources_servers", "agent": "responses_api_agents", "model": "responses_api_models"}
    known = {
        name: {kinds[name]: {name: {"host": "127.0.0.1", "port": ports[name], "entrypoint": "app.py"}}}
        for name in ports
    }
    set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    head = BaseServerConfig(host="127.0.0.1", port=port + 3)
    client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create(known))
    where = {"host": "127.0.0.1", "entrypoint": ""}
    counter = Counter(
        config=BaseResourcesServerConfig(port=port, name="resources", **where), server_client=client
    ).setup_webserver()
    agent = SimpleAgent(
        config=SimpleAgentConfig(
            port=port + 1, name="agent", **where,
            resources_server=ResourcesServerRef(type="resources_servers", name="resources"),
            model_server=ModelServerRef(type="responses_api_models", name="model"),
        ),
        server_client=client,
    ).setup_webserver()  # fmt: skip
    apps = zip((counter, agent, model_app(scripts)), ports.values(), strict=True)
    servers = [uvicorn.Server(uvicorn.Config(app, port=at, log_level="warning")) for app, at in apps]
    await asyncio.gather(*(server.serve() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))
