"""The paper's figure 1 as measured: clients, initiators and target, with versions, processors and memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from harness.definitions.units import counted
from harness.figures.parts import Sheet, muted_colour
from harness.figures.reduced_run import Missing, Run

SHOWN_MAX = 4  # initiators with a box of their own
_COLUMNS = {"clients": 0.0, "initiators": 0.38, "target": 0.76}  # left edges
_BOX_WIDTH, _BOX_HEIGHT, _ROW = 0.24, 0.8, 1.0
_LINE_MAX = 28  # characters that fit in a box


def is_known(manifest: Mapping[str, Any]) -> bool:
    """Whether the run had instances: a model has none."""
    return bool(manifest.get("instances"))


def draw(run: Run) -> Sheet:
    """Draw the instances of the newest version of a run, and the machine of the clients."""
    version = run.versions[-1]
    of_version = [row for row in run.manifest["instances"] if row.get("lab_version") == version]
    if not any(row["name"] == "target" for row in of_version):
        raise Missing(f"the run does not say on what version {version} ran")
    target, *initiators = sorted(of_version, key=lambda row: (row["name"] != "target", len(row["name"]), row["name"]))
    shown = initiators[:SHOWN_MAX]
    fig = Sheet(8.4, 0.5 + 0.95 * max(len(shown), 1))
    ax = fig.subplots()
    ax.axis("off")
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(-0.15, max(len(shown), 1) * _ROW)
    middle = (len(shown) - 1) * _ROW / 2
    _box(ax, "clients", middle, _clients(run))
    _box(ax, "target", middle, _instance(target))
    for place, instance in enumerate(reversed(shown)):
        _box(ax, "initiators", place * _ROW, _instance(instance))
        _arrow(ax, "clients", "initiators", middle, place * _ROW)
        _arrow(ax, "initiators", "target", place * _ROW, middle)
    left_out = len(initiators) - len(shown)
    more = f" {counted(left_out, 'more initiator')} are like these." if left_out else ""
    fig.entitle(
        "Clients, initiators and target",
        "Clients call the initiators' send procedure; a Service Broker route leads from each initiator to the target."
        f"{more} {_shared(run, version)}",
        run.cells[run.cells.server_version == version],
    )
    return fig


def _clients(run: Run) -> list[str]:
    machine = run.manifest.get("machine") or {}
    cells = run.cells
    threads = int((cells.initiators * cells.threads).max())
    return [
        "Locust's workers",
        f"{threads:,} threads at most",
        counted(int(machine.get("processors") or 0), "processor"),
        str(machine.get("processor") or ""),
    ]


def _instance(row: Mapping[str, Any]) -> list[str]:
    facts = row.get("fingerprint") or {}
    system = facts.get("system") or {}
    memory_gb = int(row.get("physical_memory_kb") or 0) / 1024**2
    schedulers = system.get("scheduler_count")
    on_schedulers = "" if schedulers is None else f", {counted(int(schedulers), 'scheduler')}"
    return [
        str(row["name"]),
        f"on {row['server_name']}",
        f"version {row['product_version']}",
        f"{counted(int(row['cpu_count']), 'processor')}{on_schedulers}",
        f"{memory_gb:.0f} GB of memory",
    ]


def _shared(run: Run, version: str) -> str:
    placement = (run.manifest.get("placement") or {}).get(version) or {}
    own: Mapping[str, str] = placement.get("processors") or {}
    parts = [f"{name} has processors {cpus}" for name, cpus in own.items()]
    if run.shared:
        parts.append(run.shared)
    return f"{'; '.join(parts)[:1].upper()}{'; '.join(parts)[1:]}." if parts else ""


def _box(ax: Axes, column: str, y: float, lines: Sequence[str]) -> None:
    left = _COLUMNS[column]
    ax.add_patch(Rectangle((left, y), _BOX_WIDTH, _BOX_HEIGHT, fill=False, linewidth=1.0, edgecolor=muted_colour()))
    head, *rest = [line if len(line) <= _LINE_MAX else f"{line[: _LINE_MAX - 1]}…" for line in lines]
    top = y + _BOX_HEIGHT - 0.1
    ax.text(left + 0.012, top, head, va="top", fontsize=8.6, fontweight="bold")
    ax.text(left + 0.012, top - 0.19, "\n".join(rest), va="top", fontsize=7, linespacing=1.25)


def _arrow(ax: Axes, source: str, destination: str, from_y: float, to_y: float) -> None:
    half = _BOX_HEIGHT / 2
    ax.annotate(
        "",
        (_COLUMNS[destination], to_y + half),
        (_COLUMNS[source] + _BOX_WIDTH, from_y + half),
        arrowprops={"arrowstyle": "-|>", "color": muted_colour(), "linewidth": 1.1},
    )
