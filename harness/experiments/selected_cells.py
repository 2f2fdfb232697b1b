"""The cells of a run: those that an id or axes name, and those that settings select, in the order of the run.

Opening a lab needs no more of this package, and starts without what reads and writes records: NumPy and Arrow.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.definitions.matrix import INITIATORS_MAX, Cell, Visit, all_cells, axis_value, bounds, select, sweep_order
from harness.experiments import precision
from harness.failures import UsageFailure, nearest
from harness.files.settings import RunSettings, SettingsError
from harness.lab.opening import Topology

_DEFAULTS = {"initiators": 1, "threads": 10, "dialog_ratio": 150, "payload_bytes": 100}


class UnknownName(UsageFailure):
    """An axis value that no cell can have; the message names the valid ones."""


def axes(texts: Mapping[str, Any], topology: Topology) -> Cell:
    """The cell of axis values given as texts, with defaults for the others; raises UnknownName."""
    values: dict[str, Any] = {"server_version": topology.sweep_versions[-1], **_DEFAULTS}
    if bodies := topology.workload.bodies:
        values["payload_bytes"] = bodies.mean_bytes or max(bodies.least_bytes, _DEFAULTS["payload_bytes"])
    values |= {name: text for name, text in texts.items() if text is not None}
    try:
        values |= {name: axis_value(name, values[name], topology.initiators_max) for name in _DEFAULTS}
    except ValueError as error:
        raise UnknownName(str(error)) from None
    if (version := values["server_version"]) not in topology.versions:
        raise UnknownName(
            f"the {topology.kind.name} lab has no server version {version!r}{nearest(version, topology.versions)}"
        )
    return Cell(**values)


def cell_of(cell_id: str | None, given_axes: Mapping[str, Any], topology: Topology) -> Cell:
    """The cell of an id or of axis values, of which only one is given; raises UsageFailure."""
    if cell_id is None:
        cell = axes(given_axes, topology)
    elif any(value is not None for value in given_axes.values()):
        raise UnknownName("give a cell id or axes, not both")
    else:
        cell = named_cell(cell_id, topology.versions, topology.initiators_max)
    topology.workload.require_payload(cell.payload_bytes)
    return cell


def named_cell(cell_id: str, versions: Sequence[str], initiators_max: int = INITIATORS_MAX) -> Cell:
    """The cell of an id, or the paper's only cell whose id begins so; raises UnknownCell or UnknownName."""
    with contextlib.suppress(ValueError):
        cell = Cell.parse(cell_id)
        for name, valid in bounds(initiators_max).items():
            if getattr(cell, name) not in valid:
                raise UnknownName(f"{cell_id}: {name.replace('_', ' ')}: {valid[0]:,} to {valid[-1]:,} are valid")
        if cell.server_version in versions:
            return cell
    matches = select(all_cells(versions, initiators_max=initiators_max), [cell_id])
    if len(matches) > 1:
        raise UnknownName(f"{cell_id!r} matches {len(matches)} cells, {matches[0].id} to {matches[-1].id}: name one")
    return matches[0]


def cells_of(settings: RunSettings, initiators_max: int = INITIATORS_MAX) -> list[Cell]:
    """The cells of the matrix with the axes that the settings have in place of its own, before any selection."""
    if (most := max(settings.initiators or (1,))) > initiators_max:
        remedy = f"name more in lab.toml, or for containers set MSSQL_INITIATORS={most}"
        raise SettingsError(f"--initiators: the lab has {initiators_max}, not {most}: {remedy}")
    return settings.matrix.cells(settings.server_versions, initiators_max=initiators_max, given=settings.axes)


def chosen_visits(
    settings: RunSettings, *, initiators_max: int = INITIATORS_MAX, interleaved: bool = False
) -> list[Visit]:
    """The selected cells that a lab with so many initiators can run, in all blocks and in the order of the run."""
    if settings.rate is not None and settings.is_whole_paper:
        raise SettingsError(
            "--rate is the same for all cells: select those that it fits with --cells, --threads or --matrix"
        )
    cells = select(cells_of(settings, initiators_max), settings.cells)
    precision.require_possible(settings, cells)
    return sweep_order(cells, settings.seed, settings.repeats, interleaved=interleaved)


def visits_on(topology: Topology, settings: RunSettings) -> list[Visit]:
    """The selected cells that this lab can run, in the order of the run."""
    visits = chosen_visits(
        settings, initiators_max=topology.initiators_max, interleaved=topology.kind.can.holds_all_versions
    )
    topology.workload.require_payload(min(visit.cell.payload_bytes for visit in visits))
    return visits
