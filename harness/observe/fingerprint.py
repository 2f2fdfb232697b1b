"""The facts about an instance on which results depend. No secrets, and only the lab's database and tempdb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.lab import scripts
from harness.lab.scripts import ScriptError, is_refusal

if TYPE_CHECKING:
    import pyodbc

# Key in the manifest and file; one row each.
_ROWS = {
    "server": "fingerprint_server",
    "system": "fingerprint_system",
    "container": "fingerprint_container",
    "host": "fingerprint_host",
    "memory": "fingerprint_memory",
}
# The same with many rows each.
_TABLES = {
    "databases": "fingerprint_databases",
    "files": "fingerprint_files",
}


def fingerprint(connection: pyodbc.Connection) -> dict[str, Any]:
    """Return plain values for JSON, with the same keys for every instance.

    A value that the instance does not show is None, with the reason in `refused`.
    """
    refused: dict[str, str] = {}

    def ask(key: str, file: str) -> list[dict[str, Any]] | None:
        try:
            return [_plain(row) for row in scripts.rows(connection, f"observe/{file}.sql", {})]
        except ScriptError as error:
            if not is_refusal(error):
                raise
            refused[key] = str(error)
            return None

    found: dict[str, Any] = {}
    for key, file in _ROWS.items():
        rows = ask(key, file)
        found[key] = rows[0] if rows else None
    for key, file in _TABLES.items():
        found[key] = ask(key, file)
    options = ask("configuration", "fingerprint_configuration")
    found["configuration"] = None if options is None else {row.pop("name"): row for row in options}
    flags = ask("trace_flags", "fingerprint_trace_flags")
    found["trace_flags"] = None if flags is None else sorted(row["TraceFlag"] for row in flags if row["Status"])
    found["refused"] = refused
    return found


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int | float | str | None) else str(value) for name, value in row.items()}
