"""How an agent's program is started."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class HarnessTransport(StrEnum):
    """How a harness exchanges messages with its adapter."""

    STDIO = "stdio"
    STREAMABLE_HTTP = "http"
    MCP = "mcp"


class HarnessConfig(BaseModel):
    """An agent's program that runs beside an environment. Times are seconds."""

    model_config = ConfigDict(extra="forbid")

    name: str
    command: list[str] = Field(min_length=1)
    """The program and its arguments."""
    working_directory: str = "/workspace"
    env_vars: dict[str, str] = Field(default_factory=dict)
    """Added to the environment variables of this process."""
    transport: HarnessTransport = HarnessTransport.STDIO
    mcp_config_path: str | None = None
    """Where the adapter writes the program's MCP configuration; None: the adapter's choice."""
    startup_timeout_s: float = Field(default=30.0, ge=0)
    """Until the program is ready."""
    session_timeout_s: float = Field(default=600.0, ge=0)
    """For one turn of the conversation."""
    model: str | None = None
    """The language model, where it is not the program's own choice."""
    api_key_env_var: str | None = None
    """The environment variable that holds the model's key."""
