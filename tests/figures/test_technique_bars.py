"""The figure of a run of `harness techniques`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import style

from harness.definitions.inference import interval_of_ratio
from harness.experiments import techniques_table
from harness.figures import technique_bars
from harness.figures.build import STYLE, draw, frame
from harness.figures.reduced_run import Missing, is_techniques_run
from harness.files.records import ResultsError
from tests.results_fixture import write_manifest

pytestmark = pytest.mark.drawing

STEPS = [
    ("ladder", "dialog_per_message", "A dialog per message", None, 100.0),
    ("ladder", "reuse", "Dialogs reused, one per thread", "dialog_per_message", 250.0),
    ("warning", "baseline", "All of it (baseline)", None, 1000.0),
    ("warning", "cold", "Dialogs not warmed up", "baseline", 800.0),
]


def steps(runs: int = 1) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "server_version": "2008",
                "place": place,
                "kind": kind,
                "technique": key,
                "title": title,
                "compared_with": compared_with,
                "block": run,
                "initiators": 3,
                "threads": 50,
                "payload_bytes": 100,
                "measured_s": 1.0,
                "processed_per_s": rate + 10 * (run - 1),
                "sent_per_s": 1200.0,
                "latency_us_p95": 12_300.0,
                "readers": None if key == "cold" else 16,
            }
            for run in range(1, runs + 1)
            for place, (kind, key, title, compared_with, rate) in enumerate(STEPS, start=1)
        ]
    )


def texts(table: pd.DataFrame) -> list[str]:
    with style.context(STYLE):
        sheet = technique_bars.draw(table)
        frame(sheet, "a lab", ["where it comes from"])
    return [text.get_text() for ax in sheet.axes for text in (*ax.texts, *ax.get_yticklabels())]


def test_every_step_has_its_name_and_its_numbers() -> None:
    said = texts(steps())
    assert [title for _, _, title, _, _ in STEPS] == [text for text in said if text in {step[2] for step in STEPS}]
    assert "250/s, ×2.5, p95 12.3 ms, 16 readers" in said
    assert "800/s, ×0.8, p95 12.3 ms" in said, "a step without a number of readers names none"
    assert "1,000/s, p95 12.3 ms, 16 readers" in said, "the baseline is compared with nothing"


def test_runs_of_a_technique_are_one_bar_with_their_mean() -> None:
    assert "110/s, p95 12.3 ms, 16 readers" in texts(steps(runs=3))


def test_a_ratio_has_an_interval_from_three_runs_on_and_else_two_digits() -> None:
    def subtitle(runs: int) -> str:
        with style.context(STYLE):
            return technique_bars.draw(steps(runs)).subtitle

    assert "One run, no interval." in subtitle(1)
    assert "2 runs, no interval." in subtitle(2)
    assert "95 % interval" in subtitle(3)
    table = steps(runs=3)
    ratios = np.log([250 / 100, 260 / 110, 270 / 120])
    interval = interval_of_ratio(list(ratios))
    assert technique_bars.factor_words(table, "reuse", "dialog_per_message") == (
        f"×{interval.ratio:.3g} ({interval.low:.3g} to {interval.high:.3g})"
    )
    assert technique_bars.factor_words(table[table.block <= 2], "reuse", "dialog_per_message") == "×2.4"
    assert technique_bars.factor_words(table, "baseline", None) == ""


def test_without_a_row_there_is_nothing_to_draw() -> None:
    with pytest.raises(Missing):
        technique_bars.draw(pd.DataFrame())


def folder_of(tmp_path: Path, lab: str) -> Path:
    (tmp_path / "reduced").mkdir()
    write_manifest(tmp_path, lab=lab, scenario={})
    steps().to_parquet(tmp_path / technique_bars.TABLE)
    return tmp_path


@pytest.mark.parametrize(
    "lab, head",
    [
        ("embedded", "Embedded lab, not SQL Server (it imitates 2008) · closed loop"),
        ("simulated", "A model, not SQL Server (simulated lab; it models 2008) · closed loop"),
    ],
)
def test_the_files_say_that_the_numbers_are_not_those_of_sql_server(tmp_path: Path, lab: str, head: str) -> None:
    png, svg = draw(folder_of(tmp_path, lab))
    assert (png.name, svg.name) == ("techniques.png", "techniques.svg")
    written = svg.read_text()
    assert f"<!-- {head} -->" in written, "Matplotlib draws letters as paths and writes the text beside them"
    assert "4 runs of 4 techniques · 1 s" in written


def test_a_run_of_cells_with_an_added_table_is_not_a_run_of_techniques(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "embedded")
    assert is_techniques_run(folder)
    write_manifest(folder)
    assert not is_techniques_run(folder)


def test_the_figure_reads_columns_that_the_table_has() -> None:
    assert set(technique_bars.COLUMNS) <= set(techniques_table.SCHEMA.names)
    assert set(technique_bars.COLUMNS) == set(steps().columns)


def test_a_run_without_a_completed_step_is_an_error_of_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "embedded")
    (folder / technique_bars.TABLE).unlink()
    with pytest.raises(ResultsError, match="no step of this run was completed"):
        draw(folder)


def test_a_missing_column_is_an_error_of_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "embedded")
    steps().drop(columns=["technique", "readers"]).to_parquet(folder / technique_bars.TABLE)
    with pytest.raises(ResultsError, match=r"techniques.parquet lacks technique, readers: run `harness techniques`"):
        draw(folder)


def test_a_damaged_table_is_an_error_of_one_line(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "embedded")
    (folder / technique_bars.TABLE).write_text("no table")
    with pytest.raises(ResultsError, match="cannot be read"):
        draw(folder)
