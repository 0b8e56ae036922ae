"""WebSocket connections without a library: frames, handshake, connection state, and busy polling."""
