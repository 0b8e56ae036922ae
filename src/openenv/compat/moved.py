"""Where the modules and names of the published package are."""

MODULES = {
    "openenv.core.containers": "openenv.hosting",
    "openenv.core.env_server.web_interface": "openenv.web.published.interface",
    "openenv.core.evals": "openenv.integrations.evals",
    "openenv.core.harness": "openenv.agents",
    "openenv.core.llm_client": "openenv.agents.llm.client",
    "openenv.core.rubrics": "openenv.rubrics",
    "openenv.core.rubrics.base": "openenv.core.rubric",
    "openenv.core.rubrics.containers": "openenv.rubrics.combinators",
    "openenv.core.tools": "openenv.integrations.tools",
}
"""A published module, and the module of this package that is imported for it. Submodules follow."""

NAMES = {
    "openenv.core": {
        "AnthropicClient": "openenv.agents.llm.client",
        "LLMClient": "openenv.agents.llm.client",
        "LLMResponse": "openenv.agents.llm.client",
        "OpenAIClient": "openenv.agents.llm.client",
        "ToolCall": "openenv.agents.llm.client",
        "WebInterfaceManager": "openenv.web.published.interface",
        "create_llm_client": "openenv.agents.llm.client",
        "create_web_interface_app": "openenv.web.published.interface",
    },
    "openenv.core.env_client": {
        "LocalDockerProvider": "openenv.hosting.runtime.docker",
        "UVProvider": "openenv.hosting.runtime.uv_provider",
    },
    "openenv.core.env_server": {
        "WebInterfaceManager": "openenv.web.published.interface",
        "create_web_interface_app": "openenv.web.published.interface",
    },
}
"""Names that the published modules of the specification export, and that stand in a layer above them here."""
