"""Metrics, spans, and log context of a server."""
