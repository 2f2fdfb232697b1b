"""The cells of a run: those that an id or axes name, and those that settings select, in the order of the run.

Opening a lab needs no more of this package, and starts without what reads and writes records: NumPy and Arrow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.failures import UsageFailure
from harness.lab.opening import Topology
from harness.matrix import (
    DIALOG_RATIOS,
    INITIATORS,
    PAYLOADS_BYTES,
    THREADS,
    Cell,
    Visit,
    all_cells,
    quick_slice,
    select,
    sweep_order,
)
from harness.settings import RATIO_MAX, RunSettings, Settings, SettingsError
from harness.sweep import precision

_RATIOS = range(1, RATIO_MAX + 1)  # of a single cell: any
_DEFAULTS = {"initiators": 1, "threads": 10, "dialog_ratio": 150, "payload_bytes": 100}


class UnknownName(UsageFailure):
    """An axis value that does not exist; the message names the nearest."""


def axes(given: Mapping[str, Any], topology: Topology) -> Cell:
    """The cell of axis values given as texts, with defaults for the others; raises UnknownName."""
    valid_values: Mapping[str, Sequence[Any]] = {
        "initiators": INITIATORS[: topology.initiators_max],
        "threads": THREADS,
        "dialog_ratio": _RATIOS,
        "payload_bytes": PAYLOADS_BYTES,
        "server_version": topology.versions,
    }
    values: dict[str, Any] = {"server_version": topology.sweep_versions[-1], **_DEFAULTS}
    for name, valid in valid_values.items():
        text = given.get(name)
        if text is None:
            continue
        by_text = {str(value): value for value in valid}
        if str(text) not in by_text:
            raise UnknownName(f"{name.replace('_', ' ')} {text!r} is not in the matrix{_nearest_value(text, valid)}")
        values[name] = by_text[str(text)]
    return Cell(**values)


def _nearest_value(text: object, valid: Sequence[Any]) -> str:
    if isinstance(valid, range):
        return f"; valid: {valid[0]} to {valid[-1]}"
    try:
        number = float(str(text))
    except ValueError:
        return f"; valid: {', '.join(map(str, valid))}"
    close = sorted(valid, key=lambda value: abs(float(value) - number))[:2]
    return f"; nearest: {', '.join(str(value) for value in sorted(close))}; valid: {', '.join(map(str, valid))}"


def cell_of(cell_id: str | None, given_axes: Mapping[str, Any], topology: Topology) -> Cell:
    """The cell of an id or of axis values, of which only one is given; raises UnknownCell or UnknownName."""
    if cell_id is None:
        return axes(given_axes, topology)
    if any(value is not None for value in given_axes.values()):
        raise UnknownName("give a cell id or axes, not both")
    return named_cell(cell_id, topology.versions, topology.initiators_max)


def named_cell(cell_id: str, versions: Sequence[str], initiators_max: int = INITIATORS[-1]) -> Cell:
    """The one cell that an id or its begin names, of any dialog ratio; raises UnknownCell or UnknownName."""
    ratios = set(DIALOG_RATIOS)
    with contextlib.suppress(ValueError):
        ratios.add(Cell.parse(cell_id).dialog_ratio)
    found = select(all_cells(versions, initiators_max=initiators_max, ratios=sorted(ratios)), [cell_id])
    if len(found) > 1:
        raise UnknownName(f"{cell_id!r} matches {len(found)} cells, {found[0].id} to {found[-1].id}: name one")
    return found[0]


def chosen_visits(
    settings: RunSettings, *, initiators_max: int = INITIATORS[-1], interleaved: bool = False
) -> list[Visit]:
    """The selected cells that a lab with so many initiators can run, in all blocks and in the order of the run."""
    if settings.rate is not None and not (settings.cells or settings.quick):
        raise SettingsError("--rate is the same for all cells: select those that it fits with --cells, or --quick")
    cells = select(
        all_cells(settings.server_versions, initiators_max=initiators_max, ratios=settings.ratios), settings.cells
    )
    if settings.quick:
        slice_ = [
            cell for cell in quick_slice(settings.server_versions, settings.ratios) if cell.initiators <= initiators_max
        ]
        cells = [cell for cell in cells if cell in set(slice_)] if settings.cells else slice_
    precision.require_possible(settings, cells)
    return sweep_order(cells, settings.seed, settings.repeats, interleaved=interleaved)


def visits_on(topology: Topology, settings: Settings) -> list[Visit]:
    """The selected cells that this lab can run, in the order of the run."""
    return chosen_visits(settings, initiators_max=topology.initiators_max, interleaved=topology.holds_all_versions)
