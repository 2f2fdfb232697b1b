"""Numbers for Prometheus, in OpenMetrics: `--metrics 127.0.0.1:9464` of `harness monitors`, `matrix` and `ui`.

`grafana.json` beside this module is a dashboard of them for Grafana. The page is guarded like the others and listens
on this machine alone: a Prometheus elsewhere comes through `ssh -L` or a proxy of yours.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from flask import Flask, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from harness.definitions.lab_kinds import LabKind
from harness.load.pages import guard
from harness.observe.cell_looks import CellReporter, Records
from harness.observe.looks import Look
from harness.output.reporting import Reporter

LAB = "service_broker_lab_"
# Charts of a look: metric, its label, how many of the chart's units are one of the metric's, and what it is.
CHARTS = {
    "depth": ("messages_in_queues", "queue", 1, "Messages in queues and transmission queues"),
    "rate": ("messages_per_second", "what", 1, "Messages sent and processed per second"),
    "end_to_end_ms": ("end_to_end_quantiles_seconds", "what", 1000, "Latency from the send to the target's INSERT"),
    "wait_ms": ("time_in_queues_seconds", "what", 1000, "How long a message waits on average, computed"),
    "readers": ("readers", "what", 1, "Queue readers of the target"),
    "activations": ("activations_per_second", "what", 1, "Queue readers that the target started per second"),
    "target_waits": ("target_waits_seconds_per_second", "wait_type", 1000, "Waits of the target"),
    "initiator_waits": ("initiator_waits_seconds_per_second", "wait_type", 1000, "Waits of all initiators"),
    "target_latches": ("target_page_latch_waiters", "object", 1, "Tasks of the target that wait for a page"),
    "initiator_latches": ("initiator_page_latch_waiters", "object", 1, "Tasks of the initiators that wait for a page"),
}
STATES = ("INACTIVE", "NOTIFIED", "RECEIVES_OCCURRING")
_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, np.inf)


@contextmanager
def serving(port: int, collector: Collector) -> Iterator[None]:
    """Serve a collector's metrics on this machine during the block. The port must be free."""
    registry = CollectorRegistry()
    registry.register(collector)

    def show() -> Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=kind)

    app = Flask("harness.load.pages", static_folder=None)
    guard.protect(app)
    app.add_url_rule("/metrics", "metrics", show)
    with guard.listening(app, port):
        yield


def monitor_states(prefix: str, labels: Sequence[str], monitors: Iterable[tuple[Sequence[str], str]]) -> Metric:
    """A series for each queue and state: 1 for the one that its monitor has."""
    words = "1 for the state of the queue's monitor, 0 for the others"
    family = GaugeMetricFamily(f"{prefix}queue_monitor_state", words, labels=[*labels, "state"])
    for of_queue, state in monitors:
        for possible in dict.fromkeys((*STATES, state)):
            family.add_metric([*of_queue, possible], float(possible == state))
    return family


class LabMetrics(Collector):
    """What the last look at a lab's instances has shown."""

    def __init__(self) -> None:
        self._look = Look(0.0)

    def show(self, look: Look) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        look = self._look
        for chart, (name, label, units, words) in CHARTS.items():
            family = GaugeMetricFamily(LAB + name, words, labels=[label])
            for series, value in look.charts.get(chart, {}).items():
                family.add_metric([series], value / units)
            yield family
        yield monitor_states(LAB, ["queue"], (([queue], state) for queue, state in look.monitors.items()))


class SweepMetrics(CellReporter, Collector):
    """A reporter of a sweep that keeps its numbers too: cells, and what their instances and messages did.

    Cells of a model run in processes of their own: of them only the numbers of cells are known.
    """

    def __init__(self, to: Reporter) -> None:
        super().__init__(to)
        self._lab = LabMetrics()
        self._run, self._kind, self._cells = "", "", 0
        self._outcomes: Counter[str] = Counter()
        self._calls = _Latencies(f"{LAB}call_seconds", "Calls of measured windows, from their intended start")
        self._messages = _Latencies(f"{LAB}end_to_end_seconds", "Messages of them, from the send to the INSERT")

    def show(self, look: Look) -> None:
        self._lab.show(look)

    def sweep(self, results: Path, cells: Sequence[str], kind: LabKind) -> None:
        self._run, self._kind, self._cells = results.name, kind.name, len(cells)
        super().sweep(results, cells, kind)

    def recorded(self, records: Records, window_ns: range) -> None:
        calls = records["calls"]
        self._calls.add(calls["latency_ns"], calls["intended_at_ns"], window_ns)
        if (deliveries := records.get("deliveries")) is not None:
            sent, processed = (np.asarray(deliveries[name], np.int64) for name in ("sent_at_ns", "processed_at_ns"))
            self._messages.add(processed - sent, processed, window_ns)
        super().recorded(records, window_ns)

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self._outcomes[outcome] += 1
        super().cell_done(number, cell, outcome, text)

    def collect(self) -> Iterator[Metric]:
        about = GaugeMetricFamily(f"{LAB}sweep_cells", "Cells of the run, with its id", labels=["run", "lab"])
        about.add_metric([self._run, self._kind], self._cells)
        done = CounterMetricFamily(f"{LAB}cells", "Cells that are done", labels=["outcome"])
        for outcome, number in self._outcomes.items():
            done.add_metric([outcome], number)
        yield from (about, done, self._calls.family(), self._messages.family())
        yield from self._lab.collect()


class _Latencies:
    """A histogram to which whole cells are added."""

    def __init__(self, name: str, words: str) -> None:
        self._name, self._words = name, words
        self._counts, self._sum_s = np.zeros(len(_BUCKETS_S), np.int64), 0.0

    def add(self, latencies_ns: npt.ArrayLike, at_ns: npt.ArrayLike, window_ns: range) -> None:
        """Add those of a measured window."""
        moments_ns = np.asarray(at_ns, np.int64)
        is_inside = (moments_ns >= window_ns.start) & (moments_ns < window_ns.stop)
        latencies_ns = np.asarray(latencies_ns, np.int64)[is_inside]
        at = np.searchsorted(_BUCKETS_S, latencies_ns / 1e9)  # an end belongs to its bucket
        self._counts += np.bincount(at, minlength=len(_BUCKETS_S))
        self._sum_s += float(latencies_ns.sum()) / 1e9

    def family(self) -> Metric:
        ends = ["+Inf" if np.isinf(end) else str(end) for end in _BUCKETS_S]
        buckets = list(zip(ends, self._counts.cumsum().tolist(), strict=True))
        return HistogramMetricFamily(self._name, self._words, buckets=buckets, sum_value=self._sum_s)
