"""OpenTelemetry spans of a server's verbs, as children of the client's span. Needs the extra `otel`.

OpenTelemetry's own configuration decides where the spans go: `OTEL_EXPORTER_OTLP_ENDPOINT` and the like, or a provider
that the program sets up.
"""

import contextlib
from collections.abc import Iterator

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from openenv.core.env_server.observability.log_context import EpisodeContext
from openenv.core.errors import RequestRefused


class VerbSpans:
    """Makes a span for each verb."""

    def __init__(self, environment: str) -> None:
        """environment: its name, an attribute of every span. Without a provider, spans are exported over OTLP."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            provider = TracerProvider(resource=Resource.create({"service.name": environment}))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(provider)
        self._tracer = trace.get_tracer("openenv")
        self._environment = environment

    @contextlib.contextmanager
    def span(self, verb: str, episode: EpisodeContext, traceparent: str | None) -> Iterator[None]:
        """A span around the verb. traceparent: the client's, as W3C Trace Context writes it; None: the
        current span, such as the one that a web framework opens for a connection."""
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
