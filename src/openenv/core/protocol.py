"""The words of the wire that both ends say."""

SUBPROTOCOL = "openenv.sessions.v1"
"""Offered by a client, chosen by a server: request ids, time limits, validity, snapshots, and sessions that outlive
their connection. Without it both speak the published frames."""

ARRAYS_SUBPROTOCOL = "openenv.sessions.v1.arrays"
"""The same, and arrays travel as raw bytes in binary frames."""

EXTENDED = frozenset({SUBPROTOCOL, ARRAYS_SUBPROTOCOL})

UNIX = "unix:"
"""Begins the address of a server that listens on a Unix socket: unix:/run/echo.sock."""

ANSWER_TYPE = {"reset": "observation", "step": "observation", "state": "state"}
"""The type of the frame that answers each verb of the published frames."""

SESSION_HEADER = "X-Session-Id"
"""Names the session of an HTTP request and of its answer."""

NEW_SESSION = "new"
"""In that header: open a session instead of using the caller's own default one."""
