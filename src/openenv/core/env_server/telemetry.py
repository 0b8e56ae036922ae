"""What a server counts and measures, as `/metrics` tells it to Prometheus.

On the hot path times are only noted: to count many of them together takes half as long. The text is put together when
somebody asks.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

BUCKETS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
)
"""Upper ends of the latency buckets, in seconds."""

PHASES = ("wait", "environment", "encode")
"""A verb's time: until its turn comes, in the environment's code, and from the observation to bytes."""

_MOST_NOTED = 256


class _Histogram:
    """How many times are at or below the upper end of each bucket, and their sum."""

    __slots__ = ("_num_up_to", "_total", "sum_s")

    def __init__(self) -> None:
        self._num_up_to = [0] * len(BUCKETS_S)
        self._total = 0
        self.sum_s = 0.0

    def add(self, times_s: Iterable[float]) -> None:
        """Count some more: to sort them takes less than to look for the bucket of each."""
        ordered = sorted(times_s)
        for bucket, end in enumerate(BUCKETS_S):
            self._num_up_to[bucket] += bisect_right(ordered, end)
        self._total += len(ordered)
        self.sum_s += sum(ordered)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper end, how many are at or below it), the last for infinity."""
        counts = map(float, (*self._num_up_to, self._total))
        return list(zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True))


class Telemetry:
    """The counts of one server."""

    def __init__(self, num_sessions: Callable[[], int], num_waiting: Callable[[], int]) -> None:
        """The two functions are asked when the metrics are."""
        self._num_sessions = num_sessions
        self._num_waiting = num_waiting
        self._verbs: Counter[str] = Counter()
        self._errors: defaultdict[str, int] = defaultdict(int)
        self._phases = {phase: _Histogram() for phase in PHASES}
        self._noted: list[tuple[str, float, float, float]] = []
        """Verbs and their times, of PHASES, that are not counted yet."""
        self._registry = CollectorRegistry()
        self._registry.register(_Exposition(self))

    def answered(self, verb: str, wait_s: float, environment_s: float, encode_s: float) -> None:
        """Count an answer and its times, in seconds."""
        noted = self._noted
        noted.append((verb, wait_s, environment_s, encode_s))
        if len(noted) >= _MOST_NOTED:
            self._count_noted()

    def _count_noted(self) -> None:
        if self._noted:
            verbs, *phases = zip(*self._noted, strict=True)
            self._noted.clear()
            self._verbs.update(verbs)
            for histogram, times_s in zip(self._phases.values(), phases, strict=True):
                histogram.add(times_s)

    def counted(self, verb: str) -> None:
        """Count an answer whose times are of no interest."""
        self._verbs[verb] += 1

    def failed(self, code: str) -> None:
        """Count an error by its code."""
        self._errors[code] += 1

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def metrics(self) -> Iterator[Metric]:
        """All of it as metric families."""
        self._count_noted()
        yield GaugeMetricFamily("openenv_sessions", "Sessions that are open", value=self._num_sessions())
        yield GaugeMetricFamily("openenv_sessions_waiting", "Callers that wait for one", value=self._num_waiting())
        verbs = CounterMetricFamily("openenv_verbs", "Requests that were answered", labels=["verb"])
        for verb, count in self._verbs.items():
            verbs.add_metric([verb], count)
        yield verbs
        errors = CounterMetricFamily("openenv_errors", "Requests that were refused or failed", labels=["code"])
        for code, count in self._errors.items():
            errors.add_metric([code], count)
        yield errors
        latency = HistogramMetricFamily("openenv_latency_seconds", "Where a verb's time goes", labels=["phase"])
        for phase, histogram in self._phases.items():
            latency.add_metric([phase], histogram.cumulative(), histogram.sum_s)
        yield latency


class _Exposition(Collector):
    """Hands the counts to the Prometheus library when they are asked for."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterator[Metric]:
        return self._telemetry.metrics()
