"""The bytes of the protocol, for both ends: constants, JSON, arrays, and the messages of client and server."""
