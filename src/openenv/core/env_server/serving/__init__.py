"""How uvicorn runs a server: protocol, graceful shutdown, what to serve, command-line options."""
