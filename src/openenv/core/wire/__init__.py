"""The bytes of the protocol, for both ends: constants, JSON, arrays, and the frames of client and server."""
