"""What messages take of the network, by payload: the bytes that the target's Service Broker endpoint carries."""

import pandas as pd

from harness.figures import parts
from harness.figures.reduced_run import Missing

# https://learn.microsoft.com/sql/relational-databases/performance-monitor/sql-server-broker-dbm-transport-object
RECEIVED, SENT = (rf"Broker/DBM Transport\{way} I/O bytes/sec" for way in ("Receive", "Send"))
_KEY = ["cell_id", "block", "attempt"]


def is_known(counters: pd.DataFrame) -> bool:
    """Whether the endpoint's bytes were sampled: a model has none."""
    return not counters.empty and counters.counter.str.startswith(RECEIVED).any()


def draw(cells: pd.DataFrame, counters: pd.DataFrame) -> parts.Sheet:
    """Draw bytes a message and the highest use a second, from the valid cells and the target's performance counters."""
    by_payload = _by_payload(cells, counters)
    fig = parts.Sheet(8.4, 4.4)
    of_message, of_second = fig.subplots(1, 2)
    sizes = [int(size) for size in by_payload.index]
    for ax, received, sent, label in (
        (of_message, by_payload.received_bytes, by_payload.sent_bytes, "bytes on the network for a message processed"),
        (of_second, by_payload.received_mb_per_s, by_payload.sent_mb_per_s, "MB per second, in the cell with the most"),
    ):
        ax.plot(sizes, received, label="the target receives", **parts.cycle_entry(0))
        ax.plot(sizes, sent, label="the target sends", **parts.cycle_entry(1))
        ax.set_ylim(bottom=0)
        ax.set_ylabel(label)
        parts.log_thread_axis(ax, sizes, "bytes a message (log scale)", name="{:,}".format)
    parts.thousands(of_message.yaxis)
    of_message.plot(sizes, sizes, ":", color=parts.muted_colour(), marker="", label="the payload alone")
    parts.legend_below(of_second, {str(line.get_label()): line for line in of_message.lines}, columns=1)
    first = by_payload.iloc[0]
    fig.entitle(
        f"A message of {sizes[0]:,} bytes takes {first.received_bytes + first.sent_bytes:,.0f} bytes on the network",
        "What the target's Service Broker endpoint received and sent: messages, acknowledgements and their headers, "
        "without those of TCP. Left: means over the cells that count.",
        cells,
    )
    return fig


def _by_payload(cells: pd.DataFrame, counters: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each payload, by its bytes, with bytes a message and megabytes a second, received and sent."""
    ways = {}
    for name, counter in (("received", RECEIVED), ("sent", SENT)):
        rows = counters[(counters.instance == "target") & counters.counter.isin([counter, rf"{counter}\_Total"])]
        ways[name] = rows.groupby(_KEY).change_per_s.sum(min_count=1)
    counting = cells[cells.valid & (cells.processed_per_s > 0)]
    table = counting.join(pd.DataFrame(ways), on=_KEY).dropna(subset=list(ways))
    if table.empty:
        raise Missing("the bytes of the target's endpoint were not sampled")
    for name in ways:
        table[f"{name}_bytes"] = table[name] / table.processed_per_s
        table[f"{name}_mb_per_s"] = table[name] / 1e6
    by_payload = table.groupby("payload_bytes")
    means = by_payload[["received_bytes", "sent_bytes"]].mean()
    return means.join(by_payload[["received_mb_per_s", "sent_mb_per_s"]].max())
