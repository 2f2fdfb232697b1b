"""Raw records as they are written and read back."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from harness.definitions.matrix import Cell, Visit
from harness.files import records
from harness.output.safe_text import visible
from tests.unsafe import NAME, unsafe_in

VISIT = Visit(Cell.parse("i1-t2-r150-p100-v2008"))
CALLS = {
    "initiator": np.array([1, 1, 1], dtype=np.int32),
    "thread": [1, 2, 2],
    "sequence": [0, 0, 1],
    "intended_at_ns": np.array([10, 20, 2**62]),
    "started_at_ns": [10, 20, 30],
    "latency_ns": [5, 6, 7],
    "succeeded": [True, False, True],
}
SAMPLES = {
    "instance": ["target", "initiator-1"],
    "sampled_at_ns": [1, 2],
    "metric": ["Größe", ""],
    "label": ["x", "y"],
    "value": [3, -0.5],
}


@pytest.mark.parametrize("kind, columns", [("calls", CALLS), ("samples", SAMPLES)])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_rows_are_read_as_they_were_written(tmp_path, kind, columns, rows):
    given = {name: list(values[:rows]) for name, values in columns.items()}
    table = pq.read_table(records.write(tmp_path, kind, VISIT, 2, given))
    assert table.schema.equals(records.SCHEMAS[kind])
    read = table.to_pydict()
    assert {name: read[name] for name in given} == given
    assert read["cell_id"] == [VISIT.cell.id] * rows and read["attempt"] == [2] * rows


def test_a_table_has_texts_as_they_are_and_its_csv_shows_them_without_control_characters(tmp_path):
    parquet, text = records.write_table(
        pa.table({"wait": [NAME, None, "é", NAME], "ms": [1, 2, 3, 4]}), tmp_path, "waits"
    )
    assert pq.read_table(parquet)["wait"].to_pylist() == [NAME, None, "é", NAME]
    assert unsafe_in(text.read_text(encoding="utf-8"), besides="\n") == []
    assert pyarrow.csv.read_csv(text)["wait"].to_pylist()[2:] == ["é", visible(NAME)]


def test_an_unknown_number_is_not_a_number(tmp_path):
    path = records.write(tmp_path, "samples", VISIT, 1, SAMPLES | {"value": [math.nan, 1.0]})
    assert math.isnan(pq.read_table(path)["value"][0].as_py())


@pytest.mark.parametrize("name, value", [("thread", 2**31), ("sequence", 1.5), ("latency_ns", None), ("succeeded", 2)])
def test_a_value_that_does_not_fit_its_field_is_refused(tmp_path, name, value):
    with pytest.raises((ValueError, TypeError)):
        records.write(tmp_path, "calls", VISIT, 1, CALLS | {name: [value] * 3})
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.process
def test_records_are_written_without_pandas(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.test_records import *;"
        "records.write(Path(sys.argv[1]), 'samples', VISIT, 1, SAMPLES); print('pandas' in sys.modules)"
    )
    done = subprocess.check_output(
        [sys.executable, "-c", code, str(tmp_path)], text=True, timeout=400, cwd=Path(__file__).parents[1]
    )
    assert done.strip() == "False"
