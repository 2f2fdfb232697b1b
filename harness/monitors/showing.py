"""Show the state of servers: a table that fits its console, lines in words, and JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from harness.definitions.units import counted
from harness.monitors.explaining import Explanation, explain
from harness.monitors.state import NOT_COMPLETE, RETAINED, Database, Queue, Server
from harness.monitors.wording import time_text
from harness.output.reporting import SafeConsole, styled

WIDE = 130  # columns from which on a table has all that is known
_ROWS_MIN = 3
_NAME_MIN, _NAME_READABLE = 12, 24  # columns of a queue's name; with fewer of them flags take several lines
_FLAG_MIN = 10  # columns of the longest flag
_SHORT = {"RECEIVES_OCCURRING": "RECEIVES"}
_COLUMNS = (
    *("queue", "ready", "late", "retained", "oldest", "in/s", "out/s", "monitor", "readers", "activated", "empty"),
    "flags",
)
_WIDE_COLUMNS = ("late", "retained", "activated", "empty")
_LEAST_COLUMNS = ("readers", "in/s", "out/s", "oldest")  # left out one by one in a terminal that is too narrow for all
_TEXT_COLUMNS = ("queue", "monitor", "flags")


def as_json(servers: Sequence[Server]) -> str:
    """Return one look at servers as a JSON document of one line."""
    servers_shown = [
        {**asdict(server), "explanations": [asdict(explanation) for explanation in explain(server, servers)]}
        for server in servers
    ]
    return json.dumps({"servers": servers_shown})


def view(server: Server, console: SafeConsole, servers: Sequence[Server], *, height: int | None = None) -> Group:
    """Return the whole view for a console, or as much of it as fits a height in lines.

    The queues that are explained come first, then the deepest. `servers` are all that are looked at.
    """
    explanations = explain(server, servers)
    explained = {(explanation.database, explanation.what) for explanation in explanations}
    listed = [(database, queue) for database in server.databases for queue in database.queues]
    listed.sort(key=lambda row: ((row[0].shown_name, row[1].full_name) not in explained, -(row[1].rows or 0)))
    databases: list[RenderableType] = list(_lines_of_databases(server.databases))
    problems: list[RenderableType] = [styled(problem, "yellow") for problem in server.problems]
    reasons = [_explained(one) for one in explanations]
    if height is None:
        table = _table_of(listed, len(listed), console, server)
    else:
        databases = _fitting(console, databases, max(_ROWS_MIN, height // 5), "database")
        left = height - _lines(console, *databases) - bool(problems)
        needed = _lines(console, reasons[0]) + 1 if reasons else 0
        number = min(len(listed), left // 2 if reasons else left)
        table = _table_of(listed, number, console, server)
        while number > _ROWS_MIN and _lines(console, *table) > left - needed:
            number -= 1
            table = _table_of(listed, number, console, server)
        left -= _lines(console, *table)
        reasons = _fitting(console, reasons, left, "reason")
        problems = _fitting(console, problems, left + bool(problems) - _lines(console, *reasons), "problem")
    return Group(*table, *databases, *reasons, *problems)


def _table_of(
    listed: Sequence[tuple[Database, Queue]], number: int, console: SafeConsole, server: Server
) -> list[RenderableType]:
    """Return a table of the first queues, and how many are left out."""
    if not listed:
        return ["no queues of users that the login sees"]
    parts: list[RenderableType] = [_table(listed[:number], console.width, server.knows_monitors), ""]
    if number < len(listed):
        parts.append(styled(f"{counted(len(listed) - number, 'more queue')} with fewer messages", "dim"))
    return parts


def _fitting(console: SafeConsole, parts: Sequence[RenderableType], height: int, plural: str) -> list[RenderableType]:
    """Return as many parts as fit a height, and in one more line how many do not."""
    fitting: list[RenderableType] = []
    for number, part in enumerate(parts):
        height -= _lines(console, part)
        left = len(parts) - number
        if height < (1 if left > 1 else 0):
            more = "more " if fitting else ""
            fitting.append(styled(f"{counted(left, more + plural)}: --once shows all", "dim"))
            break
        fitting.append(part)
    return fitting


def _lines(console: SafeConsole, *parts: RenderableType) -> int:
    return sum(len(console.render_lines(part)) for part in parts)


def _explained(explanation: Explanation) -> RenderableType:
    head = styled(f"{explanation.database}, {explanation.what}: ", "bold") + styled(explanation.reason, "not bold")
    rest = Group(f"evidence: {explanation.evidence}", f"remedy: {explanation.remedy}")
    return Group(head, Padding(rest, (0, 0, 0, 2), expand=False))


def _table(rows: Sequence[tuple[Database, Queue]], width: int, knows_monitors: bool) -> Table:
    """Return a table in which numbers and states are whole: names of queues are shortened, and flags folded."""
    is_wide = width >= WIDE
    columns = [name for name in _COLUMNS if is_wide or name not in _WIDE_COLUMNS]
    is_one = len({database.name for database, _ in rows}) == 1 and not is_wide
    lines = [
        [
            queue.plain_name if is_one else f"{database.shown_name}.{queue.plain_name}",
            *_cells(database, queue, is_wide, knows_monitors),
        ]
        for database, queue in rows
    ]
    for name in _LEAST_COLUMNS:
        if _least_width(columns, lines) <= width:
            break
        place = columns.index(name)
        for cells in (columns, *lines):
            del cells[place]
    widths = [max(map(len, cells)) for cells in zip(columns, *lines, strict=True)]
    excess = sum(widths) + 2 * (len(columns) - 1) - width
    if widths[0] - excess < min(widths[0], _NAME_READABLE):
        widths[-1] = min(widths[-1], _FLAG_MIN)
        excess = sum(widths) + 2 * (len(columns) - 1) - width
    widths[0] = min(widths[0], max(_NAME_MIN, widths[0] - excess))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name, column_width in zip(columns, widths, strict=True):
        is_text = name in _TEXT_COLUMNS
        is_flags = name == "flags"
        table.add_column(
            name,
            justify="left" if is_text else "right",
            no_wrap=not is_flags,
            max_width=column_width,
            min_width=column_width,
        )
    for name, *cells in lines:
        table.add_row(_shortened(name, widths[0]), *cells)
    return table


def _least_width(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    widths = [max(map(len, cells)) for cells in zip(columns, *lines, strict=True)]
    widths[0], widths[-1] = min(widths[0], _NAME_MIN), min(widths[-1], _FLAG_MIN)
    return sum(widths) + 2 * (len(columns) - 1)


def _shortened(name: str, width: int) -> str:
    """Return a name with its middle left out where it is too long: names often differ at their ends."""
    if len(name) <= width:
        return name
    end = (width - 1) * 2 // 3
    return f"{name[: width - 1 - end]}…{name[-end:]}"


def _cells(database: Database, queue: Queue, is_wide: bool, knows_monitors: bool) -> list[str]:
    monitor = queue.monitor
    cells = [_number(queue.ready)]
    if is_wide:
        cells += [_of_status(queue, NOT_COMPLETE), _of_status(queue, *RETAINED)]
    cells += [_ago(queue.oldest_s if queue.rows else None), _rate(queue.in_per_s), _rate(queue.out_per_s)]
    if monitor is None:
        cells += ["none" if knows_monitors else "?", "-"]
    else:
        cells += [f"{_SHORT.get(monitor.state, monitor.state)} {time_text(monitor.since_s)}"]
        cells += ["-" if queue.max_readers is None else f"{monitor.readers}/{queue.max_readers}"]
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
        flags.append("poison-off")
    return flags


def _lines_of_databases(databases: Sequence[Database]) -> Iterable[str]:
    for database in databases:
        if not (database.queues or database.transmission_rows):
            continue
        parts = [f"{database.name}: {_number(database.transmission_rows)} in the transmission queue"]
        if database.reason:
            mostly = "mostly: " if len({waiting.transmission_status for waiting in database.transmission}) > 1 else ""
            reason = database.reason.removeprefix("Connection handshake failed. ")
            parts[0] += f" ({mostly}{reason.partition('. ')[0].rstrip('.')})"
        if database.conversations:
            numbers = Counter[str]()
            for conversations in database.conversations:
                numbers[conversations.state] += conversations.number
            states = sorted(numbers.items(), key=lambda state: (-state[1], state[0]))
            parts.append("conversations: " + ", ".join(f"{count:,} {state}" for state, count in states))
        else:
            rows = database.conversation_rows
            parts.append("? conversations" if rows is None else counted(rows, "conversation"))
        yield "; ".join(parts)


def _of_status(queue: Queue, *statuses: int) -> str:
    return "" if not queue.rows or queue.statuses is None else _number(sum(queue.statuses.get(s, 0) for s in statuses))


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"


def _ago(seconds: float | None) -> str:
    return "" if seconds is None else time_text(seconds)
