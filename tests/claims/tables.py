"""Reduced tables of a few rows, and the number that a claim finds in them."""

import pandas as pd
import pytest

from harness.claims import MEASURES, NotMeasured
from harness.claims.judgement import Tables, evidence


def cells(*rows, **same):
    """Make cells from rows of (initiators, threads, ratio, payload, version, rate)."""
    names = ["initiators", "threads", "dialog_ratio", "payload_bytes", "server_version", "processed_per_s"]
    table = pd.DataFrame(rows, columns=names)
    table["cell_id"] = table[names[:5]].astype(str).agg("-".join, axis=1)
    table["total_threads"] = table.initiators * table.threads
    return table.assign(**({"state": "valid", "block": 1, "settle_s": 0.5, "measured_s": 1.0} | same))


def measured(key, **tables):
    return MEASURES[key](evidence(Tables(**tables)))


def value(key, **tables):
    return measured(key, **tables).value


def missing(key, **tables):
    with pytest.raises(NotMeasured) as reason:
        measured(key, **tables)
    return str(reason.value)
