"""Numbers for Prometheus: what a sweep, a lab and servers show, as their own parser reads it, and the dashboard of them."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from harness.definitions.lab_kinds import EMBEDDED
from harness.load.pages import openmetrics
from harness.load.pages.openmetrics import CHARTS, LAB, LabMetrics, SweepMetrics
from harness.monitors.metrics import ServerMetrics
from harness.monitors.state import Conversations, Database, Monitor, Queue, Server
from harness.observe.looks import Look
from tests.noting import NotingReporter
from tests.processes import free_port

DASHBOARD = Path(openmetrics.__file__).with_name("grafana.json")


def values(collector: Collector) -> dict[tuple[str, ...], float]:
    """What is shown, by name and labels in the order of their names."""
    registry = CollectorRegistry()
    registry.register(collector)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def sweep() -> SweepMetrics:
    """A sweep of two cells of which one is done."""
    metrics = SweepMetrics(NotingReporter())
    metrics.sweep(Path("20260101-120000-embedded"), ["a", "b"], EMBEDDED)
    calls = {"intended_at_ns": [0, 1, 2, 10**9], "latency_ns": [500_000, 500_001, 20_000_000_000, 7]}
    deliveries = {"sent_at_ns": [0, 10, 20], "processed_at_ns": [2_000_000, 3_000_010, 10**9]}
    metrics.recorded({"calls": calls, "deliveries": deliveries}, range(0, 10**9))
    metrics.cell_done(1, "a", "completed", "")
    return metrics


def lab() -> LabMetrics:
    metrics = LabMetrics()
    charts = {chart: {"series": 1500.0} for chart in CHARTS}
    metrics.show(Look(1.0, charts, {"target dbo.Q": "NOTIFIED"}))
    return metrics


def servers() -> ServerMetrics:
    queue = Queue("dbo", "Orders", 1, True, True, False, True, True, "p", True, None, 4, None, None, False, False)
    queue.rows, queue.oldest_s, queue.in_per_s, queue.out_per_s = 7, 60.0, 3.0, 0.0
    queue.monitor = Monitor("RECEIVES_OCCURRING", 0, 2, 1.0, 1.0)
    conversations = Conversations("Orders", "CONVERSING", False, 5, "", 0.0, 0, 0.0)
    database = Database(5, "Shop", False, "", queues=[queue], transmission_rows=9, conversations=[conversations])
    metrics = ServerMetrics()
    metrics.show({"sql1": Server("SQL1", "sql1", [database], cost_s=0.25), "sql2": None})
    return metrics


def test_a_sweep_shows_its_cells_and_how_long_calls_and_messages_took() -> None:
    shown = values(sweep())
    assert shown[f"{LAB}sweep_cells", "embedded", "20260101-120000-embedded"] == 2
    assert shown[f"{LAB}cells_total", "completed"] == 1
    of_calls = {name[1]: value for name, value in shown.items() if name[0] == f"{LAB}call_seconds_bucket"}
    assert (of_calls["0.0005"], of_calls["0.001"], of_calls["10.0"], of_calls["+Inf"]) == (1, 2, 2, 3)
    assert shown[f"{LAB}end_to_end_seconds_count",] == 2
    assert shown[f"{LAB}end_to_end_seconds_sum",] == pytest.approx(0.005)


def test_a_lab_shows_the_charts_of_its_last_look_in_base_units() -> None:
    shown = values(lab())
    for name, _, units, _ in CHARTS.values():
        assert shown[LAB + name, "series"] == 1500 / units
    states = {state: shown[f"{LAB}queue_monitor_state", "target dbo.Q", state] for state in openmetrics.STATES}
    assert states == {"INACTIVE": 0, "NOTIFIED": 1, "RECEIVES_OCCURRING": 0}
    assert not any(name.startswith(LAB) for name, *_ in values(LabMetrics())), "nothing before the first look"


def test_servers_show_queues_conversations_and_how_many_reasons_there_are() -> None:
    shown = values(servers())
    of_queue = ("Shop", "[dbo].[Orders]", "sql1")
    assert (shown["service_broker_up", "sql1"], shown["service_broker_up", "sql2"]) == (1, 0)
    assert shown["service_broker_queue_messages", *of_queue] == 7
    assert shown["service_broker_queue_readers", *of_queue] == 2
    assert shown["service_broker_queue_readers_max", *of_queue] == 4
    assert shown["service_broker_queue_monitor_state", *of_queue, "RECEIVES_OCCURRING"] == 1
    assert shown["service_broker_transmission_queue_messages", "Shop", "sql1"] == 9
    assert shown["service_broker_conversations", "Shop", "no", "sql1", "Orders", "CONVERSING"] == 5
    assert shown["service_broker_broker_enabled", "Shop", "sql1"] == 0
    assert "service_broker_queue_ready_messages" in {name for name, *_ in shown}


def test_the_dashboard_and_the_metrics_name_each_other() -> None:
    """A panel of what nobody exports would be empty; the few that no panel has are conditions of others."""
    exported = {name for collector in (sweep(), lab(), servers()) for name, *_ in values(collector)}
    exported.add("service_broker_explanations")  # of queues whose messages stay for seconds
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"service_broker_\w+", target["expr"])
    }
    assert asked <= exported
    parts = re.compile(r"_(count|sum|bucket|created)$")
    assert {parts.sub("", name) for name in exported} - {parts.sub("", name) for name in asked} == {
        f"{LAB}time_in_queues_seconds",
        *(f"service_broker_{name}" for name in ("look_seconds", "broker_enabled", "queue_ready_messages")),
        *(f"service_broker_queue_{name}_enabled" for name in ("receive", "activation")),
    }


def test_the_page_is_for_prometheus_on_this_machine_alone() -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/metrics"
    with openmetrics.serving(port, lab()):
        request = urllib.request.Request(address, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        with urllib.request.urlopen(request) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert answer.read().endswith(b"# EOF\n")
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(urllib.request.Request(address, headers=headers))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address)
