"""The table that the terminal shows at the end of a run: its cells, or its peaks and gains where there are many."""

import numpy as np

from harness.claims.judgement import over_blocks
from harness.definitions.inference import intervals, no_interval
from harness.figures.headlines import Number, gain_columns, headlines, milliseconds, peak_columns
from harness.figures.reduced_run import Run

CELLS_MAX = 24


def rows(run: Run) -> list[list[str]]:
    """Return the rows, headings first."""
    return _cells(run) if run.cells.cell_id.nunique() <= CELLS_MAX else _headlines(run)


def _cells(run: Run) -> list[list[str]]:
    counting = run.cells[run.cells.valid & (run.cells.processed_per_s > 0)]
    logs = counting.assign(log_rate=np.log(counting.processed_per_s.astype(float)))
    estimates = intervals(logs, ["cell_id"], ["cell_id"], "log_rate").set_index("cell_id")
    table = [["cell", "processed/s", "95 % interval", "call p50, ms", "p95, ms", "state"]]
    axes = ["server_version", "initiators", "payload_bytes", "threads", "dialog_ratio"]
    for row in over_blocks(run).cells.sort_values(axes).itertuples():
        rate, sure = row.processed_per_s, "–"
        if row.cell_id in estimates.index:
            estimate = estimates.loc[row.cell_id]
            rate, sure = estimate.ratio, no_interval(int(estimate.blocks))
            if estimate.low > 0:
                sure = f"{estimate.low:,.0f} to {estimate.high:,.0f}"
        latencies = [milliseconds(value) for value in (row.latency_us_p50, row.latency_us_p95)]
        table.append([str(row.cell_id), f"{rate:,.0f}", sure, *latencies, str(row.state)])
    return table if run.has_intervals else [row[:2] + row[3:] for row in table]


def _headlines(run: Run) -> list[list[str]]:
    columns = peak_columns(run) | gain_columns(run)
    return [["initiators", *columns]] + [
        [row.initiators, *(_text(number(row), run) for number in columns.values())] for row in headlines(run)
    ]


def _text(number: Number, run: Run) -> str:
    parts = (number.text, number.sure if run.has_intervals else "", number.where)
    return "\n".join(part for part in parts if part)
