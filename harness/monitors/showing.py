"""Show the state of servers: a table that fits its console, lines in words, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.monitors.explaining import Explanation, explain
from harness.monitors.state import NOT_COMPLETE, READY, RETAINED, Database, Queue, Server
from harness.monitors.wording import time_text
from harness.units import counted

WIDE = 130  # columns from which on a table has all that is known
_HEAD_LINES = 6  # above and below the rows of a table
_SHORT = {"RECEIVES_OCCURRING": "RECEIVES"}


def as_json(servers: Sequence[Server]) -> str:
    """Return one look at servers as a JSON document of one line."""
    shown = [
        {**asdict(server), "explanations": [asdict(one) for one in explain(server, servers)]} for server in servers
    ]
    return json.dumps({"servers": shown})


def view(server: Server, console: Console, servers: Sequence[Server], *, height: int | None = None) -> Group:
    """Return the whole view for a console, or as much of it as fits a height in lines.

    The queues that are explained come first, then the deepest. `servers` are all that are looked at.
    """
    explanations = explain(server, servers)
    explained = {(one.database, one.what) for one in explanations}
    listed = [(database, queue) for database in server.databases for queue in database.queues]
    listed.sort(key=lambda row: ((row[0].name, row[1].full_name) not in explained, -(row[1].rows or 0)))
    below: list[RenderableType] = [Text(line) for line in _lines_of_databases(server.databases)]
    below += [Text(problem, style="yellow") for problem in server.problems]
    reasons = [_explained(one) for one in explanations]
    shown = listed
    if height is not None:
        left = height - _HEAD_LINES - _lines(console, *below)
        shown = listed[: max(3, left // 2 if reasons else left)]
        reasons = _fitting(console, reasons, left - len(shown))
    parts: list[RenderableType] = [_table(shown, console.width, server.knows_monitors)] if listed else []
    if len(shown) < len(listed):
        parts.append(Text(f"{counted(len(listed) - len(shown), 'more queue')} with fewer messages", style="dim"))
    if not listed:
        parts.append(Text("no queues of users that the login sees"))
    return Group(*parts, *below, *reasons)


def _fitting(console: Console, reasons: Sequence[RenderableType], height: int) -> list[RenderableType]:
    """Return as many reasons as fit, and how many do not."""
    fitting: list[RenderableType] = []
    for number, reason in enumerate(reasons):
        height -= _lines(console, reason)
        if height < 1 and number + 1 < len(reasons):
            fitting.append(Text(f"{counted(len(reasons) - number, 'more reason')}: --once shows all", style="dim"))
            break
        fitting.append(reason)
    return fitting


def _lines(console: Console, *parts: RenderableType) -> int:
    return sum(len(console.render_lines(part)) for part in parts)


def _explained(one: Explanation) -> RenderableType:
    head = Text.assemble((f"{one.database}, {one.what}: ", "bold"), one.reason)
    rest = Text(f"evidence: {one.evidence}\nremedy: {one.remedy}")
    return Group(head, Padding(rest, (0, 0, 0, 2), expand=False))


def _table(rows: Sequence[tuple[Database, Queue]], width: int, knows_monitors: bool) -> Table:
    is_wide = width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("queue", overflow="ellipsis", no_wrap=True, min_width=12)
    numbers = (
        ["ready", "late", "retained", "oldest", "in/s", "out/s"] if is_wide else ["ready", "oldest", "in/s", "out/s"]
    )
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("monitor", no_wrap=True)
    table.add_column("readers", justify="right", no_wrap=True)
    if is_wide:
        for name in ("activated", "empty"):
            table.add_column(name, justify="right", no_wrap=True)
    table.add_column(
        "flags", no_wrap=True, min_width=0 if is_wide else max((_flags_width(row) for row in rows), default=0)
    )
    is_one = len({database.name for database, _ in rows}) == 1 and not is_wide
    for database, queue in rows:
        name = queue.plain_name if is_one else f"{database.name}.{queue.plain_name}"
        table.add_row(name, *_cells(database, queue, is_wide, knows_monitors))
    return table


def _flags_width(row: tuple[Database, Queue]) -> int:
    return len(" ".join(_flags(*row)))


def _cells(database: Database, queue: Queue, is_wide: bool, knows_monitors: bool) -> list[str]:
    monitor = queue.monitor
    cells = [_ready(queue)]
    if is_wide:
        cells += [_of_status(queue, NOT_COMPLETE), _of_status(queue, *RETAINED)]
    cells += [_ago(queue.oldest_s if queue.rows else None), _rate(queue.in_per_s), _rate(queue.out_per_s)]
    if monitor is None:
        cells += ["none" if knows_monitors else "?", "-"]
    else:
        cells += [f"{_SHORT.get(monitor.state, monitor.state)} {time_text(monitor.since_s)}"]
        cells += [f"{monitor.readers}/{queue.max_readers or 0}"]
    if is_wide:
        cells += [_ago(monitor.last_activated_s), _ago(monitor.last_empty_rowset_s)] if monitor else ["", ""]
    return [*cells, " ".join(_flags(database, queue))]


def _flags(database: Database, queue: Queue) -> list[str]:
    """What is not as in a queue with activation that works."""
    flags = []
    if not database.is_broker_enabled:
        flags.append("broker-off")
    if not (queue.is_receive_enabled and queue.is_enqueue_enabled):
        flags.append("OFF")
    if queue.activation_procedure is not None and not queue.is_activation_enabled:
        flags.append("idle")
    if queue.notification is not None:
        flags.append("event")
    if queue.is_retention_enabled:
        flags.append("retains")
    if not queue.is_poison_message_handling_enabled:
        flags.append("poison")
    return flags


def _lines_of_databases(databases: Sequence[Database]) -> Iterable[str]:
    for database in databases:
        if not (database.queues or database.transmission_rows):
            continue
        parts = [f"{database.name}: {_number(database.transmission_rows)} in the transmission queue"]
        if database.reason:
            parts.append(f"mostly {database.reason!r}")
        if database.conversations:
            states = sorted(database.conversations.items(), key=lambda state: (-state[1], state[0]))
            parts.append("conversations: " + ", ".join(f"{count:,} {state}" for state, count in states))
        else:
            rows = database.conversation_rows
            parts.append("? conversations" if rows is None else counted(rows, "conversation"))
        yield "; ".join(parts)


def _ready(queue: Queue) -> str:
    """Ready messages; exactly from the rows of metadata where a count was cut off."""
    if queue.is_capped and queue.statuses is not None and queue.rows is not None:
        others = sum(count for status, count in queue.statuses.items() if status != READY)
        return _number(max(queue.rows - others, 0))
    return _number(queue.ready if queue.rows else queue.rows)


def _of_status(queue: Queue, *statuses: int) -> str:
    return "" if not queue.rows or queue.statuses is None else _number(sum(queue.statuses.get(s, 0) for s in statuses))


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"


def _ago(seconds: float | None) -> str:
    return "" if seconds is None else time_text(seconds)
