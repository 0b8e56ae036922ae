"""OpenTelemetry spans of a server's verbs, as children of whatever the client was doing. Needs the extra `otel`.

Where the spans go is OpenTelemetry's own configuration: `OTEL_EXPORTER_OTLP_ENDPOINT` and its like, or a provider that
the program sets up.
"""

import contextlib
from collections.abc import Iterator

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from openenv.core.env_server.episode_log import Episode
from openenv.core.errors import RequestRefused


class VerbSpans:
    """Makes a span for each verb."""

    def __init__(self, environment: str) -> None:
        """environment: its name, told with every span. Without a provider of the program's own, exports over OTLP."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            provider = TracerProvider(resource=Resource.create({"service.name": environment}))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(provider)
        self._tracer = trace.get_tracer("openenv")
        self._environment = environment

    @contextlib.contextmanager
    def span(self, verb: str, episode: Episode, traceparent: str | None) -> Iterator[None]:
        """A span around the verb. traceparent: the client's, as W3C Trace Context writes it; None: whatever is
        current, such as the span that the web framework makes of a connection."""
        attributes = {
            "openenv.environment": self._environment,
            "openenv.session": episode.session,
            "openenv.episode": episode.name,
        }
        parent = extract({"traceparent": traceparent}) if traceparent else None
        kind = trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(f"openenv.{verb}", parent, kind, attributes) as span:
            try:
                yield
            except RequestRefused as error:
                span.set_attribute("openenv.code", error.code)
                span.set_attribute("openenv.validity", error.validity)
                raise
