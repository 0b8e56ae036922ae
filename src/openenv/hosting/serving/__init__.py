"""Runs a server on this machine under uvicorn: what to serve, where to listen, graceful shutdown, its command line."""
