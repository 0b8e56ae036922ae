"""How uvicorn runs a server: protocol, graceful shutdown, application loading, command-line options."""
