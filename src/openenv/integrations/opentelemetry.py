"""Spans of a server as children of its client's: `client.trace_context = current_traceparent`. Needs the extra `otel`.

For every client of a program: `EnvClient.trace_context = staticmethod(current_traceparent)`.
"""

from opentelemetry.propagate import inject


def current_traceparent() -> str | None:
    """The span that is current here, as W3C Trace Context writes it, or None outside of any."""
    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get("traceparent")
