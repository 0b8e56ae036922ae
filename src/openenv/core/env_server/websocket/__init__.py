"""The WebSocket endpoint: connections, and the handling of their messages."""
