"""Counters and latencies of a server, which `/metrics` exposes to Prometheus.

Each response only appends a sample. Samples are counted in batches, and the text is made when `/metrics` is requested.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

BUCKETS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0
)  # fmt: skip
"""Upper ends of the latency buckets, in seconds."""

PHASES = ("wait", "environment", "encode")
"""Phases of a verb: waiting for its turn, running the environment, and encoding the observation."""

_MAX_SAMPLES = 256


class _Histogram:
    """How many times are at or below the upper end of each bucket, and their sum."""

    __slots__ = ("_num_up_to", "_total", "sum_s")

    def __init__(self) -> None:
        self._num_up_to = [0] * len(BUCKETS_S)
        self._total = 0
        self.sum_s = 0.0

    def add(self, times_s: Iterable[float]) -> None:
        """Count more times. Sorting them once is faster than a search of the bucket for each."""
        ordered = sorted(times_s)
        for bucket, end in enumerate(BUCKETS_S):
            self._num_up_to[bucket] += bisect_right(ordered, end)
        self._total += len(ordered)
        self.sum_s += sum(ordered)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper end, how many are at or below it), the last for infinity."""
        counts = map(float, (*self._num_up_to, self._total))
        return list(zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True))


class ServerMetrics(Collector):
    """The counts of one server."""

    def __init__(self, num_sessions: Callable[[], int], num_queued: Callable[[], int]) -> None:
        """The two functions are called when the metrics are read."""
        self._num_sessions = num_sessions
        self._num_queued = num_queued
        self._verbs: Counter[str] = Counter()
        self._errors: defaultdict[str, int] = defaultdict(int)
        self._phases = {phase: _Histogram() for phase in PHASES}
        self._samples: list[tuple[str, float, float, float]] = []
        """(verb, seconds of each of PHASES) of responses that are not counted yet."""
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, verb: str, wait_s: float, environment_s: float, encode_s: float) -> None:
        """Count a response and its times, in seconds."""
        samples = self._samples
        samples.append((verb, wait_s, environment_s, encode_s))
        if len(samples) >= _MAX_SAMPLES:
            self._count_samples()

    def _count_samples(self) -> None:
        if self._samples:
            verbs, *phases = zip(*self._samples, strict=True)
            self._samples.clear()
            self._verbs.update(verbs)
            for histogram, times_s in zip(self._phases.values(), phases, strict=True):
                histogram.add(times_s)

    def count_error(self, code: str) -> None:
        """Count an error by its code."""
        self._errors[code] += 1

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All metrics as metric families. Called by the Prometheus library."""
        self._count_samples()
        yield GaugeMetricFamily("openenv_sessions", "Sessions that are open", value=self._num_sessions())
        yield GaugeMetricFamily("openenv_sessions_waiting", "Callers in the queue", value=self._num_queued())
        verbs = CounterMetricFamily("openenv_verbs", "Requests with a response", labels=["verb"])
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
