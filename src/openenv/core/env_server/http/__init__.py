"""HTTP of a server: connections, sessions for curl, tasks, MCP, authentication, and OpenAPI."""
