"""Names of the wire that both ends use."""

SUBPROTOCOL = "openenv.sessions.v1"
"""Offered by a client, chosen by a server: request ids, time limits, validity, snapshots, and sessions that outlive
their connection. Without it both ends use the published dialect."""

ARRAYS_SUBPROTOCOL = "openenv.sessions.v1.arrays"
"""The same, and arrays travel as raw bytes in binary frames."""

EXTENDED = frozenset({SUBPROTOCOL, ARRAYS_SUBPROTOCOL})

UNIX = "unix:"
"""Begins the address of a server that listens on a Unix socket: unix:/run/echo.sock."""

INHERITED = "fd:"
"""Begins the address of a server that gets its listening socket as a file descriptor from the program that starts it:
fd:0."""

RESPONSE_TYPE = {"reset": "observation", "step": "observation", "state": "state"}
"""The type of the response to each verb of the published dialect."""

EPISODE_VERBS = frozenset({"reset", "step"})
"""Verbs that return an observation."""

MAX_IN_FLIGHT = 16
"""Requests that a client has under way in one session, and so the responses that the session keeps at least."""

SESSION_HEADER = "X-Session-Id"
"""The session of an HTTP request and of its response."""

NEW_SESSION = "new"
"""In that header: open a session instead of using the caller's own default one."""
