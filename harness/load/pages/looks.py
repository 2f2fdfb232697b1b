"""The tabs Queues, Monitors, Waits and Latches: what the looks at the instances have found.

They stand beside Locust's own tabs (`add_to_locust`: its `extended_tabs` and `extended_csv_files`) and on the page of a
sweep. Locust draws only tables in such a tab, so `looks.html` draws the charts there, as SVG in the manner of Locust's
own. The page asks once a second for the looks that it does not have, whether a load runs or not.
"""

from __future__ import annotations

import csv
import io
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import Any

from flask import Flask, Response, jsonify, request
from flask.json.provider import DefaultJSONProvider
from msgspec import to_builtins

from harness.definitions.lab_kinds import LabKind
from harness.load.messages import Looked
from harness.output.safe_text import visible_lines, visible_values

logger = logging.getLogger(__name__)

LOOKS_MAX = 3600  # an hour


@dataclass(frozen=True)
class _Chart:
    key: str  # of `harness.observe.looks`
    title: str
    unit: str
    once_a_cell: bool = False  # in a sweep


@dataclass(frozen=True)
class _Tab:
    key: str
    title: str
    charts: Sequence[_Chart]
    note: str = ""
    note_of_sweep: str = ""  # instead of `note`
    has_monitors: bool = False


COMPUTED = (
    "A workload whose target stores no messages has none. Time in queues is computed: messages that wait / messages "
    "sent or processed per second, whichever is more."
)
MONITOR_STATES = (
    "INACTIVE: nothing can be received. NOTIFIED: a reader was started, and none has received since. "
    "RECEIVES_OCCURRING: readers receive; after five seconds in which no RECEIVE was empty another is started."
)
TABS = (
    _Tab(
        "queues",
        "Queues",
        (
            _Chart("depth", "Messages in queues", "messages"),
            _Chart("rate", "Messages sent and processed", "messages/s"),
            _Chart("end_to_end_ms", "End-to-end latency", "ms", once_a_cell=True),
            _Chart("wait_ms", "Time in queues", "ms"),
        ),
        "End-to-end latency is measured, of at most the 500 newest messages of each second: from the send by the "
        "client's clock to the INSERT by the target's, so on several machines it is as right as their clocks. "
        f"{COMPUTED} It is rough where a load begins or ends. All charts count every message, also those of a set-up.",
        note_of_sweep="Sampled each second while a cell runs, by the run itself: the page asks the instances nothing "
        "more. End-to-end latency has a point for each cell, of the messages processed in its measured window. "
        f"{COMPUTED}",
    ),
    _Tab(
        "monitors",
        "Monitors",
        (
            _Chart("readers", "Queue readers of the target", "readers"),
            _Chart("activations", "Activations of the target", "readers started/s"),
        ),
        MONITOR_STATES,
        note_of_sweep=f"{MONITOR_STATES} Sampled each second while a cell runs, by the run itself.",
        has_monitors=True,
    ),
    _Tab(
        "waits",
        "Waits",
        (
            _Chart("target_waits", "Waits of the target", "ms waited/s", once_a_cell=True),
            _Chart("initiator_waits", "Waits of the initiators", "ms waited/s, all together", once_a_cell=True),
        ),
        "The wait types with the longest waits in each second. Tasks wait side by side, so a second can have more than "
        "1000 ms.",
        note_of_sweep="A point for each cell, the mean of its measured window. Tasks wait side by side, so a second "
        "can have more than 1000 ms.",
    ),
    _Tab(
        "latches",
        "Latches",
        (
            _Chart(
                "initiator_latches", "Whose pages tasks of the initiators waited for", "tasks waiting", once_a_cell=True
            ),
            _Chart("target_latches", "Whose pages tasks of the target waited for", "tasks waiting", once_a_cell=True),
        ),
        "Tasks that wait for the latch of a page, on average of about ten samples a second.",
        note_of_sweep="A point for each cell: tasks that wait for the latch of a page, on average of the samples in "
        "its measured window.",
    ),
)
NO_LATCHES = "The instances of this lab have no page latches, so there is nothing to draw. SQL Server has them."


def add_to_page(html: str, response: Response) -> Response:
    """Put something at the end of Locust's page, if this is the page."""
    if request.path == "/" and response.mimetype == "text/html":
        response.set_data(response.get_data(as_text=True).replace("</body>", html + "</body>"))
    return response


def add_to_locust(web_ui: Any) -> LooksPage:
    """Add the tabs to Locust's page."""
    web_ui.template_args["extended_tabs"] = [{"key": tab.key, "title": tab.title} for tab in TABS]
    web_ui.template_args["extended_csv_files"] = [
        {"href": f"./looks/{tab.key}.csv", "title": f"Download {tab.title.lower()} CSV"} for tab in TABS
    ]
    return LooksPage(web_ui.app, web_ui.auth_required_if_enabled)


class _VisibleJson(DefaultJSONProvider):
    """What a page gets: its browser shows texts as they are."""

    sort_keys = False  # series in the order of their charts

    def dumps(self, obj: Any, **options: Any) -> str:
        return super().dumps(visible_values(obj), **options)


class LooksPage:
    """Keeps the looks of an hour, and serves them on a page, under a banner that says which lab it is."""

    def __init__(
        self, app: Flask, after_login: Callable[[Any], Any] = lambda view: view, *, of_sweep: bool = False
    ) -> None:
        self._of_sweep = of_sweep
        self._kind: LabKind | None = None
        self._lab = ""
        self._looks: deque[tuple[int, Looked]] = deque(maxlen=LOOKS_MAX)
        self._numbers = itertools.count()
        self._runs: list[tuple[float, str]] = []  # when each has begun, and its name
        self._failing: set[str] = set()  # what was missing in the last look
        app.json = _VisibleJson(app)
        app.after_request(partial(add_to_page, files("harness.load.pages").joinpath("looks.html").read_text("utf-8")))
        app.add_url_rule("/looks", "looks", after_login(self._show))
        for tab in TABS:
            app.add_url_rule(f"/looks/{tab.key}.csv", f"looks-{tab.key}", after_login(partial(self._download, tab)))

    def show_lab(self, kind: LabKind, whose_numbers: str) -> None:
        """Say from now on whose numbers these are."""
        self._kind, self._lab = kind, whose_numbers

    def add(self, looked: Looked) -> None:
        self._looks.append((next(self._numbers), looked))
        failing = set(looked.failures)
        for failure in sorted(failing - self._failing):
            logger.warning("not shown: %s", failure)
        if self._failing and not failing:
            logger.info("all instances are shown again")
        self._failing = failing

    def run_begins(self, at_s: float, name: str = "") -> None:
        """Every chart has a marker at this moment, with this name, or with the run's number."""
        self._runs.append((at_s, name or f"Run #{len(self._runs) + 1}"))

    def _show(self) -> Response:
        after = request.args.get("after", -1, int)
        looks = [{"number": number, **to_builtins(looked)} for number, looked in self._looks if number > after]
        tabs = [asdict(tab) | ({"note": tab.note_of_sweep} if self._of_sweep else {}) for tab in TABS]
        if self._kind and not self._kind.can.has_page_latches:
            tabs[-1] |= {"charts": (), "note": NO_LATCHES}
        values = {
            "lab": self._lab,
            "is_measurement": bool(self._kind and self._kind.can.is_measurement),
            "of_sweep": self._of_sweep,
        }
        return jsonify(values | {"tabs": tabs, "runs": self._runs, "looks": looks})

    def _download(self, tab: _Tab) -> Response:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self._rows(tab))
        headers = {"Content-Disposition": f"attachment;filename={tab.key}.csv"}
        return Response(visible_lines(text.getvalue()), mimetype="text/csv", headers=headers)

    def _rows(self, tab: _Tab) -> Iterator[Sequence[Any]]:
        """A row for each look. A cell is empty where the look does not know the number."""
        looks = [looked for _, looked in self._looks]
        queues = list(dict.fromkeys(name for look in looks for name in look.monitors)) if tab.has_monitors else []
        series = [(chart, name) for chart in tab.charts for name in _series(chart.key, looks)]
        yield ["lab", "time", "run", *queues, *(f"{chart.title}: {name} ({chart.unit})" for chart, name in series)]
        for look in looks:
            run = next((name for at_s, name in reversed(self._runs) if at_s <= look.at_s), "")
            states = [look.monitors.get(queue, "") for queue in queues]
            numbers = [_number(look.charts, chart.key, name) for chart, name in series]
            at = datetime.fromtimestamp(look.at_s, UTC).isoformat(timespec="milliseconds")
            yield [self._lab, at, run, *states, *numbers]


def _series(chart: str, looks: Sequence[Looked]) -> list[str]:
    return list(dict.fromkeys(name for look in looks for name in look.charts.get(chart, ())))


def _number(charts: Mapping[str, Mapping[str, float]], chart: str, name: str) -> float | str:
    return round(charts[chart].get(name, 0.0), 3) if chart in charts else ""
