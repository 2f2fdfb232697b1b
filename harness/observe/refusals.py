"""Queries that an instance refuses: to this login, in this version or on this edition."""

from __future__ import annotations

from harness.lab.scripts import ScriptError

# SQLSTATE of syntax errors and missing rights (42000), missing objects (42S02) and columns (42S22). A broken
# connection is 08S01, a timeout HYT00, a deadlock 40001.
_CLASS = "42"


def is_refusal(error: ScriptError) -> bool:
    """Return whether the instance refused the query, so that repeating it is no use and nothing else is wrong."""
    cause = error.__cause__
    return bool(cause is not None and cause.args and str(cause.args[0]).startswith(_CLASS))
