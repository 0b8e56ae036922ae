"""The application of the notes, whose messages are those of tools."""

import os

try:
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    from .environment import NotesEnvironment
except ImportError:
    from server.environment import NotesEnvironment

    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

app = create_app(
    NotesEnvironment, CallToolAction, CallToolObservation, env_name="notes_env",
    max_concurrent_envs=int(os.getenv("MAX_CONCURRENT_ENVS", "8")),
)  # fmt: skip
