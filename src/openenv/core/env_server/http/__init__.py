"""HTTP routes of a server: sessions for curl, tasks, MCP, authentication, and OpenAPI."""
