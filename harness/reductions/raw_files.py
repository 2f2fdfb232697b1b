"""The raw files of a results folder that count, by name, Parquet footer, journal and manifest."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import ParquetFileFormat
from pyarrow.fs import LocalFileSystem

from harness.failures import MachineFailure
from harness.files import journal, manifest_file
from harness.files.records import SCHEMAS, ResultsError

RAW_FILE = re.compile(r"(?P<cell>i\d+-t\d+-r\d+-p\d+-v\d+)-b(?P<block>\d+)-a(?P<attempt>\d+)(-.+)?\.parquet")
# A completed cell has no throughput without one kind of each. Other kinds may be missing and leave nulls.
REQUIRED_KINDS = (("calls",), ("deliveries", "processed"))
_PARQUET, _LOCAL = ParquetFileFormat(), LocalFileSystem()

Attempt = tuple[str, int, int]  # cell id, block, attempt


class SparkUnavailable(MachineFailure):
    """Java is missing or too old for Spark, or Spark does not start."""


@dataclass(frozen=True)
class RawRecords:
    """The files that count, by kind, and notes on what was left out."""

    manifest: Mapping[str, Any]
    files: Mapping[str, tuple[Path, ...]]
    notes: tuple[str, ...]


def read(results: Path) -> RawRecords:
    """Choose the files of `results` that count; raises ResultsError if there is nothing to reduce."""
    manifest = manifest_file.read(results)
    raw = results / "raw"
    if not raw.is_dir():
        raise ResultsError(f"{results} has no raw records (no folder raw/): run `harness matrix` first")
    notes: list[str] = []
    readable, damaged = _sort_files(raw, notes)
    if not readable["cells"] and _is_of_another_version(raw):
        raise ResultsError(f"{raw} was recorded by another version of the harness: run the cells again")
    completed = _completed_in_journal(results / journal.NAME, notes)
    chosen = {attempt for attempt in readable["cells"] if completed is None or attempt in completed}
    for attempt in sorted(chosen):
        name = f"{attempt[0]} (block {attempt[1]}, attempt {attempt[2]})"
        missing = [kinds[0] for kinds in REQUIRED_KINDS if not any(attempt in readable[kind] for kind in kinds)]
        if attempt in damaged:
            notes.append(f"{name} is left out: {damaged[attempt]} cannot be read")
            chosen.discard(attempt)
        elif missing and _completed_by_itself(readable["cells"][attempt][0]):
            notes.append(f"{name} is left out: it has no {' and no '.join(missing)}")
            chosen.discard(attempt)
    if not chosen:
        raise ResultsError(f"{results / 'raw'} holds no completed cell: nothing to reduce")
    files = {
        kind: tuple(path for attempt in sorted(chosen) for path in readable[kind].get(attempt, ())) for kind in SCHEMAS
    }
    return RawRecords(manifest, files, tuple(notes))


def attempt_of(path: Path) -> Attempt | None:
    """Return the attempt of a raw file by its name; None if it is no raw file."""
    match = RAW_FILE.fullmatch(path.name)
    return (match["cell"], int(match["block"]), int(match["attempt"])) if match else None


def _sort_files(raw: Path, notes: list[str]) -> tuple[dict[str, dict[Attempt, list[Path]]], dict[Attempt, str]]:
    """Return all readable files by kind and attempt, and the name of a damaged file by attempt."""
    readable: dict[str, dict[Attempt, list[Path]]] = {kind: defaultdict(list) for kind in SCHEMAS}
    damaged: dict[Attempt, str] = {}
    for kind, schema in SCHEMAS.items():
        folder = raw / kind
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            attempt = attempt_of(path)
            if attempt is None:
                # A killed writer leaves temporary files; they need no note.
                if path.suffix != ".tmp":
                    notes.append(f"raw/{kind}/{path.name} is not a raw record and is ignored")
                continue
            if _has_columns(path, schema):
                readable[kind][attempt].append(path)
            else:
                damaged[attempt] = f"raw/{kind}/{path.name}"
    return readable, damaged


def _is_of_another_version(raw: Path) -> bool:
    """Whether the records of cells are readable but lack a column of today's."""
    for path in (raw / "cells").glob("*.parquet"):
        try:
            return not set(SCHEMAS["cells"].names) <= set(pq.read_schema(path).names)
        except (OSError, pa.ArrowException):
            continue
    return False


def _has_columns(path: Path, schema: pa.Schema) -> bool:
    try:
        stored = _PARQUET.inspect(str(path), _LOCAL)  # in half the time of pq.ParquetFile
    except (OSError, pa.ArrowException):
        return False
    return stored.equals(schema) or all(
        field.name in stored.names and stored.field(field.name).type == field.type for field in schema
    )


def _completed_in_journal(path: Path, notes: list[str]) -> set[Attempt] | None:
    """Return the attempts that the journal calls completed, or None without a journal.

    An attempt's line in the journal is written last, so an attempt without one may lack files.
    """
    if not path.exists():
        notes.append("there is no journal.jsonl: cells count by their own record")
        return None
    last = {(entry.cell, entry.block, entry.attempt): entry.outcome for entry in journal.read(path)}
    return {attempt for attempt, outcome in last.items() if outcome == "completed"}


def _completed_by_itself(path: Path) -> bool:
    outcomes = pq.read_table(path, columns=["outcome"]).column("outcome").to_pylist()
    return "completed" in outcomes
