"""The client of the notes: tools need no methods."""

from openenv.core.mcp_client import MCPToolClient


class NotesEnv(MCPToolClient):
    """A session with the notes."""
