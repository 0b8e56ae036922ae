"""Spans: one for each request, in the trace of the client that sent it."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import EpisodeOver
from openenv.core.http_env_client import HTTPEnvClient
from openenv.integrations.opentelemetry import current_traceparent
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture
def url(serving):
    EXPORTER.clear()
    return serving(create_app(CountingEnvironment, env_name="counting", config=ServerConfig(trace=True)))


def spans():
    return {span.name: span for span in EXPORTER.get_finished_spans()}


class CountOverHttp(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The counting environment over HTTP."""


@pytest.mark.parametrize("client_class", [CountEnv, CountOverHttp])
def test_a_servers_spans_belong_to_the_clients(url, client_class):
    with client_class(url) as env, trace.get_tracer("test").start_as_current_span("training step") as mine:
        env.trace_context = current_traceparent
        env.reset(episode_id="e1")
        env.step(CountAction(amount=1))
        env.state()
        session = env.session_id

    seen = spans()
    for verb in ("reset", "step", "state"):
        span = seen[f"openenv.{verb}"]
        assert span.context.trace_id == mine.get_span_context().trace_id
        assert span.parent.span_id == mine.get_span_context().span_id
        assert dict(span.attributes) == {
            "openenv.environment": "counting", "openenv.session": session, "openenv.episode": "e1",
        }  # fmt: skip


def test_the_spans_of_steps_that_follow_one_another_do_not_nest(url, caplog):
    with CountEnv(url) as env:
        env.reset()
        for _ in range(2):
            env.step(CountAction(amount=1))

    assert [span.parent for span in EXPORTER.get_finished_spans() if span.name == "openenv.step"] == [None, None]
    assert "Failed to detach context" not in caplog.text


def test_a_refused_request_has_its_code_in_its_span(url):
    with CountEnv(url) as env:
        env.reset()
        env.step(CountAction(amount=10))
        EXPORTER.clear()
        with pytest.raises(EpisodeOver):
            env.step(CountAction(amount=1))

    attributes = spans()["openenv.step"].attributes
    assert (attributes["openenv.code"], attributes["openenv.validity"]) == ("EPISODE_OVER", "refused")


def test_a_client_does_not_send_its_trace_by_default(url):
    with trace.get_tracer("test").start_as_current_span("private") as mine, CountEnv(url) as env:
        env.reset()
    assert spans()["openenv.reset"].context.trace_id != mine.get_span_context().trace_id


def test_a_server_without_tracing_creates_no_spans(serving):
    EXPORTER.clear()
    with CountEnv(serving(create_app(CountingEnvironment))) as env:
        env.reset()
    assert not [name for name in spans() if name.startswith("openenv.")]
