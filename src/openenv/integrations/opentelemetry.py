"""Propagates the client's trace context, so that a server's spans are children of the client's. Needs extra `otel`.

For one client: `client.trace_context = current_traceparent`. For all clients of a program:
`EnvClient.trace_context = staticmethod(current_traceparent)`.
"""

from opentelemetry.propagate import inject


def current_traceparent() -> str | None:
    """Return the current span as a W3C Trace Context header, or None outside of a span."""
    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get("traceparent")
