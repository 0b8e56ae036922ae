"""Generators: they sample replies, embedded in this process or from a vLLM server."""
