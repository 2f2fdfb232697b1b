"""Servers in OpenMetrics, for `harness monitors --metrics`: what the last look has shown, in numbers with labels."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from harness.load.pages.openmetrics import monitor_states
from harness.monitors.explaining import explain
from harness.monitors.state import Database, Queue, Server

PREFIX = "service_broker_"
OF_QUEUE = ("server", "database", "queue")
# Of a queue: a value that is None has no series.
_QUEUE: Mapping[str, tuple[str, Callable[[Queue], Any]]] = {
    "queue_messages": ("Rows of the queue", lambda queue: queue.rows),
    "queue_ready_messages": ("Messages that could be received", lambda queue: queue.ready),
    "queue_oldest_message_age_seconds": ("Age of the oldest message", lambda queue: queue.oldest_s),
    "queue_incoming_messages_per_second": ("Messages that came, between two looks", lambda queue: queue.in_per_s),
    "queue_outgoing_messages_per_second": ("Messages that left, between two looks", lambda queue: queue.out_per_s),
    "queue_receive_enabled": ("1: the queue is ON", lambda queue: int(queue.is_receive_enabled)),
    "queue_activation_enabled": ("1: its activation is ON", lambda queue: int(queue.is_activation_enabled)),
    "queue_readers": ("Readers that its monitor has started", lambda queue: queue.monitor and queue.monitor.readers),
    "queue_readers_max": ("MAX_QUEUE_READERS", lambda queue: queue.max_readers),
}


class ServerMetrics(Collector):
    """The servers by their address; None for one that does not answer."""

    def __init__(self) -> None:
        self._servers: Mapping[str, Server | None] = {}

    def show(self, servers: Mapping[str, Server | None]) -> None:
        self._servers = dict(servers)

    def collect(self) -> Iterator[Metric]:
        looks = {address: server for address, server in self._servers.items() if server is not None}
        databases = [(address, database) for address, server in looks.items() for database in server.databases]
        queues = [
            ([address, database.name, queue.full_name], queue)
            for address, database in databases
            for queue in database.queues
        ]
        up = GaugeMetricFamily(f"{PREFIX}up", "1: the server has answered the last look", labels=["server"])
        cost = GaugeMetricFamily(f"{PREFIX}look_seconds", "The server's time for a look", labels=["server"])
        for address, server in self._servers.items():
            up.add_metric([address], server is not None)
            if server is not None:
                cost.add_metric([address], server.cost_s)
        yield from (up, cost, *(_of_queues(name, queues) for name in _QUEUE))
        yield monitor_states(
            PREFIX, OF_QUEUE, ((labels, queue.monitor.state) for labels, queue in queues if queue.monitor)
        )
        yield from _of_databases(databases)
        yield _explanations(looks)


def _of_queues(name: str, queues: list[tuple[list[str], Queue]]) -> Metric:
    words, value_of = _QUEUE[name]
    family = GaugeMetricFamily(PREFIX + name, words, labels=OF_QUEUE)
    for labels, queue in queues:
        if (value := value_of(queue)) is not None:
            family.add_metric(labels, value)
    return family


def _of_databases(databases: list[tuple[str, Database]]) -> Iterator[Metric]:
    enabled = GaugeMetricFamily(f"{PREFIX}broker_enabled", "1: ENABLE_BROKER", labels=["server", "database"])
    waiting = GaugeMetricFamily(
        f"{PREFIX}transmission_queue_messages", "Messages that wait to be sent", labels=["server", "database"]
    )
    conversations = GaugeMetricFamily(
        f"{PREFIX}conversations",
        "Conversation endpoints by state",
        labels=["server", "database", "service", "state", "kept"],
    )
    for address, database in databases:
        enabled.add_metric([address, database.name], database.is_broker_enabled)
        if database.transmission_rows is not None:
            waiting.add_metric([address, database.name], database.transmission_rows)
        for group in database.conversations or ():
            labels = [address, database.name, group.service, group.state, "yes" if group.is_kept else "no"]
            conversations.add_metric(labels, group.number)
    yield from (enabled, waiting, conversations)


def _explanations(looks: Mapping[str, Server]) -> Metric:
    """What to raise an alert on. The reasons have times and sessions in them, so that they are no labels."""
    family = GaugeMetricFamily(
        f"{PREFIX}explanations",
        "Reasons why messages stay: harness monitors says them",
        labels=["server", "database", "what"],
    )
    for address, server in looks.items():
        numbers = Counter((why.database, why.what) for why in explain(server, list(looks.values())))
        for labels, number in numbers.items():
            family.add_metric([address, *labels], number)
    return family
