"""pyodbc, or why it does not load: without unixODBC its import fails, and `drivers.check_manager` reports that."""

from __future__ import annotations

__all__ = ["load_failure", "pyodbc"]

load_failure = ""
try:
    import pyodbc
except ImportError as error:
    pyodbc = None
    load_failure = str(error)
