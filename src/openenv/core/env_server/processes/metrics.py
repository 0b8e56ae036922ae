"""Figures of several workers as one exposition: every sample says whose it is."""

from collections.abc import Iterable, Mapping

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry


def merged(texts: Mapping[int, bytes]) -> bytes:
    """Prometheus' text of all workers. texts: that of each, by its number; the label `worker` is added."""
    families: dict[str, Metric] = {}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text.decode()):
            merged_family = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type, family.unit)
            )
            merged_family.samples += [
                sample._replace(labels={"worker": str(worker), **sample.labels}) for sample in family.samples
            ]
    registry = CollectorRegistry()
    registry.register(_Families(families.values()))
    return generate_latest(registry)


class _Families(Collector):
    """Hands families to the Prometheus library as they are."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
