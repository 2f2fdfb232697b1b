import functools
import json
import re
import shutil
from contextlib import suppress
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import style
from matplotlib.colors import to_rgba
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from harness.definitions.matrix import Cell, all_cells
from harness.figures import build, throughput
from harness.figures.build import FORMATS, STYLE, draw, drawings, frame, wrap, write
from harness.figures.gain import NOT_TOLD
from harness.figures.reduced_run import Missing, Run, clocks, footer, judge, origin, read
from harness.files.records import NotWritable, ResultsError
from harness.output.reporting import Reporter
from tests.figures.conftest import FIGURES, Drawn
from tests.noting import FigureReporter
from tests.results_fixture import write_reduced
from tests.thorough import one_of_each
from tests.unsafe import NAME, unsafe_in

pytestmark = pytest.mark.drawing


def framed(run):
    """Return every figure of a run as it is saved, by name."""
    return run.sheets if isinstance(run, Drawn) else framed_of(run)


@functools.cache
def framed_of(folder):
    run = read(folder)
    sheets = {}
    with style.context(STYLE):
        for name, drawing in drawings(run).items():
            with suppress(Missing):
                sheets[name] = drawing()
                frame(sheets[name], origin(run.lab, run.load_model, sheets[name].versions), footer(run))
                sheets[name].draw_without_rendering()  # puts the numbers at their ticks, as saving does
    return sheets


def words(sheet):
    return [text.get_text() for text in sheet.findobj(Text) if text.get_visible() and text.get_text().strip()]


# `make test` draws the widest run and one of SQL Server; the others have fewer cells of the same figures.
RUNS = one_of_each(["paper_run", "server_run", "flat_run", "plain_run", "drawn_run"], "server_run".__eq__)
ABSENT = [
    ("paper_run", set()),
    ("server_run", {"figure-3-throughput-2-initiators", "figure-4-throughput-3-initiators"}),
    ("flat_run", {"page-latches"}),  # no task waits for a page there
    ("drawn_run", set()),
]


@pytest.mark.parametrize("run, absent", one_of_each(ABSENT, lambda case: case[0] == "server_run"))
def test_a_run_has_every_figure_complete_and_without_empty_panels(run, absent, request):
    sheets = framed(request.getfixturevalue(run))
    assert list(sheets) == [name for name in FIGURES if name not in absent]
    for name, sheet in sheets.items():
        drawn, (width, height) = sheet.get_tightbbox(), sheet.get_size_inches()
        assert drawn.x0 >= 0 and drawn.y0 >= 0 and drawn.x1 <= width and drawn.y1 <= height, name
        for ax in sheet.axes:
            assert ax.lines or ax.collections or ax.patches, name
            assert ax.get_ylabel() or ax.get_xlabel() or ax.get_title(loc="left"), name


@pytest.mark.parametrize("run", RUNS)
def test_no_text_leaves_the_canvas(run, request):
    for name, sheet in framed(request.getfixturevalue(run)).items():
        canvas = sheet.bbox.padded(1)
        for text in [*sheet.texts, *(text for ax in sheet.axes for text in words_of(ax))]:
            box = text.get_window_extent()
            inside = canvas.x0 <= box.x0 and canvas.y0 <= box.y0 and box.x1 <= canvas.x1 and box.y1 <= canvas.y1
            assert inside, (name, text.get_text())


@pytest.mark.parametrize("run", RUNS)
def test_a_legend_covers_neither_data_nor_words_and_names_only_what_is_drawn(run, request):
    for name, sheet in framed(request.getfixturevalue(run)).items():
        for legend in (ax.get_legend() for ax in sheet.axes if ax.get_legend()):
            box = legend.get_window_extent()
            for ax in sheet.axes:
                covered = [*data_boxes(ax), *(text.get_window_extent() for text in words_of(ax))]
                assert not any(box.overlaps(other) for other in covered), name
            drawn = {label for ax in sheet.axes for label in labels_of_drawn(ax)}
            assert {text.get_text() for text in legend.get_texts()} <= drawn, name


@pytest.mark.parametrize("run", RUNS)
def test_an_axis_of_numbers_has_three_numbers_or_one_for_each_place_on_it(run, request):
    for name, sheet in framed(request.getfixturevalue(run)).items():
        for ax in sheet.axes:
            for axis in (ax.xaxis, ax.yaxis):
                fixed = getattr(axis.get_major_locator(), "locs", None)
                places = 3 if fixed is None else len(fixed)
                shared = not any(label.get_visible() for label in axis.get_majorticklabels())
                numbers = [label.get_text() for label in numbers_of(axis)]
                assert shared or len(numbers) >= min(3, places), (name, axis.axis_name, numbers)


def numbers_of(axis):
    """Return the numbers that stand at ticks; those of ticks outside the limits exist but are not drawn."""
    low, high = sorted(axis.get_view_interval())
    place = {"x": 0, "y": 1}[axis.axis_name]
    labels = [label for label in axis.get_majorticklabels() if label.get_visible() and label.get_text()]
    return [label for label in labels if low <= label.get_position()[place] <= high]


def words_of(ax):
    """What stands around the data: notes, title, labels, numbers at ticks."""
    around = [*ax.texts, ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
    return [*(text for text in around if text.get_text().strip()), *numbers_of(ax.xaxis), *numbers_of(ax.yaxis)]


def data_boxes(ax):
    """The bars of a panel, and the points of its lines."""
    for patch in ax.patches:
        if patch.get_window_extent().width and patch.get_window_extent().height:
            yield patch.get_window_extent()
    for line in ax.lines:
        for x, y in ax.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()])):
            yield Bbox.from_extents(x - 3, y - 3, x + 3, y + 3)


def labels_of_drawn(ax):
    """The labels of bars with an extent and of lines with a point."""
    for container in ax.containers:
        bars = [bar for bar in getattr(container, "patches", []) if bar.get_width() and bar.get_height()]
        if bars or not hasattr(container, "patches"):
            yield container.get_label()
    for line in ax.lines:
        if len(line.get_xdata()):
            yield line.get_label()
    for points in ax.collections:
        if len(points.get_offsets()):
            yield points.get_label()
    for steps in ax.patches:
        if isinstance(steps, StepPatch) and steps.get_data().values.any():
            yield steps.get_label()


def test_names_of_lines_do_not_overlap(flat_run):
    for name, sheet in framed(flat_run).items():
        for ax in sheet.axes:
            names = [text for text in ax.texts if text.get_fontweight() == "bold"]
            boxes = [text.get_window_extent() for text in names]
            for place, box in enumerate(boxes):
                assert not any(box.padded(-2).overlaps(other.padded(-2)) for other in boxes[:place]), name


@pytest.mark.parametrize(
    "name, stated",
    [
        ("figure-2-throughput-1-initiator", "almost 5,000"),
        ("figure-3-throughput-2-initiators", "almost 12,000"),
        ("figure-4-throughput-3-initiators", "over 18,000"),
        ("figure-5-gain", "up to +315 %"),
    ],
)
def test_a_number_of_the_paper_is_marked_as_the_papers_on_any_scale(paper_run, flat_run, name, stated):
    for run in (paper_run, flat_run):
        (mark,) = [text for text in words(framed(run)[name]) if stated in text]
        assert "the paper" in mark and "SQL Server" in mark
        assert ("above this scale" in mark) == (run is flat_run)


def test_every_figure_says_where_it_comes_from(flat_run):
    for name, sheet in framed(flat_run).items():
        whole = " ".join(words(sheet)).replace("\n", " ")
        for part in (
            "Embedded lab",
            "Not SQL Server",
            "20261121-0900-flat",
            "2005 and 2008",
            "harness 0.1.0 (0123456)",
            "2026-11-21 09:00 UTC, took 23 min 41 s",
            "closed loop",
        ):
            assert part in whole, (name, part)


def test_the_line_above_a_title_names_the_lab_and_the_versions_shown(flat_run, server_run, drawn_run):
    def head(run, name):
        return min(framed(run)[name].texts, key=lambda text: -text.get_position()[1]).get_text()

    assert head(flat_run, "gain-map") == "Embedded lab, not SQL Server (it imitates 2005 and 2008) · closed loop"
    for sheet in FIGURES:
        if sheet in framed(server_run):
            assert head(server_run, sheet) == "SQL Server 2022 · closed loop"
    # The busiest cell is of one version.
    assert head(drawn_run, "queues") in [
        f"Embedded lab, not SQL Server (it imitates {year}) · closed loop" for year in (2005, 2008)
    ]


def test_one_version_of_sql_server_has_no_bars_and_its_footer_names_the_clients_processor(server_run):
    for name, sheet in framed(server_run).items():
        assert "bars:" not in sheet.subtitle, name
        assert not any(getattr(drawn, "has_yerr", False) for ax in sheet.axes for drawn in ax.containers), name
    foot = footer(read(server_run))
    assert "Not SQL Server" not in foot[0]
    assert "version 2022" in foot[1]
    assert "clients on A processor" in foot[2]


def test_a_run_whose_instances_share_processors_or_a_disk_says_so_below_every_figure_and_judges_accordingly(tmp_path):
    placement = {"2022": {"machine": "", "processors": {}, "shared": {"disk": "one", "processors": "two"}}}
    run = read(write_reduced(tmp_path / "run", all_cells()[:8], lab="sqlserver", placement=placement))
    assert footer(run)[2].endswith(" · the instances share processors and a disk")
    verdicts = {one.claim.key: one.explanation for one in judge(run)}
    assert verdicts["linear_1_to_3"] == "the instances share processors and a disk"
    placement["2022"]["shared"] = {"disk": "one"}
    apart = read(write_reduced(tmp_path / "other", all_cells()[:8], lab="sqlserver", placement=placement))
    assert apart.shared == "the instances share a disk"
    assert read(write_reduced(tmp_path / "old", all_cells()[:8])).shared == ""


def test_a_run_whose_initiators_have_few_schedulers_judges_no_gain(tmp_path):
    def run(name: str, lab: str, schedulers: int) -> Run:
        facts = [("target", 2), ("initiator-1", 8), ("initiator-2", schedulers)]
        instances = [{"name": side, "fingerprint": {"system": {"scheduler_count": each}}} for side, each in facts]
        return read(write_reduced(tmp_path / name, all_cells()[:8], lab=lab, instances=instances))

    few = run("few", "sqlserver", 4)
    assert few.few_schedulers == "an initiator has 4 schedulers, and the paper's had 8"
    assert {one.claim.key: one.explanation for one in judge(few)}["gain_max"] == few.few_schedulers
    assert run("many", "sqlserver", 8).few_schedulers == run("embedded", "embedded", 1).few_schedulers == ""


def test_a_run_that_was_not_finished_says_so(tmp_path):
    run = write_reduced(tmp_path / "run", all_cells()[:8], finished_at=None)
    assert "not finished" in footer(read(run))[1]


def test_files_are_png_and_svg(drawn_run):
    run, (*written, report), _ = drawn_run
    assert report == run / "report.html"
    paths = [path for path in written if path.parent.name == "figures"]
    assert sorted(path.name for path in paths) == sorted(f"{name}.{end}" for name in FIGURES for end in FORMATS)
    assert {path.name for path in (run / "figures").iterdir()} == {path.name for path in paths}
    for path in paths:
        if path.suffix == ".png":
            assert Image.open(path).width > 1000


def test_the_same_data_give_the_same_files(quick_run, tmp_path):
    run = read(quick_run)
    some = {name: drawing for name, drawing in drawings(run).items() if name in ("figure-5-gain", "gain-map")}
    first = write(some, tmp_path / "first", str, footer(run), Reporter())
    with mpl.rc_context({"axes.facecolor": "yellow"}):  # as a notebook may set it
        second = write(some, tmp_path / "second", str, footer(run), Reporter())
    assert len(first) == 4
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.usefixtures("unrendered")
def test_figures_without_data_are_left_out_reported_and_removed(tmp_path):
    cells = [cell for cell in all_cells() if cell.dialog_ratio == 150 and cell.initiators == 1][:20]
    run = write_reduced(tmp_path / "run", cells)
    (run / "figures").mkdir()
    stale = run / "figures" / "figure-5-gain.png"
    stale.write_bytes(b"of another time")
    reporter = FigureReporter()
    *paths, _ = draw(run, progress=reporter)
    assert {path.stem for path in paths} == {
        "figure-2-throughput-1-initiator",
        "waits",
        "claims",
        "page-spread",
        "log-writes",
        "latency",
        "end-to-end",
        "queues",
    }
    assert reporter.left_out == {
        "figure-3-throughput-2-initiators": "no completed cell with 2 initiators",
        "figure-4-throughput-3-initiators": "no completed cell with 3 initiators",
        "figure-5-gain": "no cell was completed with both dialog ratios",
        "gain-map": "no cell was completed with both dialog ratios",
        "page-latches": "in 800 samples no task was seen waiting for a page latch",
    }
    assert set(reporter.completed) == {path.stem for path in paths} - {"claims"}
    assert reporter.total == len(reporter.completed) + len(reporter.left_out)
    assert not stale.exists()


def test_a_single_cell_can_be_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "FORMATS", ("png",))
    run = write_reduced(tmp_path / "run", [Cell.parse("i2-t7-r1-p500-v2022")], lab="sqlserver")
    sheets = {path.stem for path in draw(run)[:-1]}
    assert sheets == {
        "figure-3-throughput-2-initiators",
        "waits",
        "page-spread",
        "log-writes",
        "latency",
        "end-to-end",
        "queues",
        "claims",
    }


@pytest.mark.usefixtures("unrendered")
def test_a_folder_reduced_by_an_older_harness_is_drawn_without_the_missing_figures(quick_run, tmp_path):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    for name in ("page_spread", "latch_share", "latches", "file_io"):
        (run / "reduced" / f"{name}.parquet").unlink()
    reporter = FigureReporter()
    *paths, _ = draw(run, progress=reporter)
    assert {path.stem for path in paths} == {*FIGURES, "claims"} - {"page-latches", "page-spread", "log-writes"}
    assert reporter.left_out == {
        "page-latches": "tasks that wait for page latches were not sampled",
        "page-spread": "the pages of the dialogs were not read (that needs the dedicated administrator connection)",
        "log-writes": "the instances' database files were not observed",
    }


def test_one_version_has_no_bars_and_no_note_on_versions(tmp_path):
    cells = [cell for cell in all_cells() if cell.server_version == "2008" and cell.initiators == 3]
    sheet = framed_one(write_reduced(tmp_path / "run", cells), "figure-4-throughput-3-initiators")
    assert "versions" not in sheet.subtitle
    assert not any(container.has_yerr for ax in sheet.axes for container in ax.containers)


def test_cells_that_are_not_valid_are_hollow_or_in_brackets_with_a_note(paper_run, tmp_path):
    run = shutil.copytree(paper_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    for name in ("cells", "gain"):
        table = pd.read_parquet(run / "reduced" / f"{name}.parquet")
        invalid = table.threads >= 50
        column, value = ("state", "unsettled") if name == "cells" else ("valid", False)
        table.loc[invalid, column] = value
        table.to_parquet(run / "reduced" / f"{name}.parquet")
    sheet = framed_one(run, "figure-5-gain")
    hollow = [line for line in sheet.axes[0].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[150]] * 4
    assert "Hollow: 4 with a cell that does not count." in sheet.subtitle
    subtitle = framed_one(run, "figure-4-throughput-3-initiators").subtitle
    assert "Hollow" in subtitle
    assert "at 3 × 40 threads" in subtitle, "the rate with 50 threads is higher, but hollow"
    written = framed_one(run, "log-writes")
    hollow = [line for line in written.axes[0].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[50]] * 4 and "Hollow" in written.subtitle
    squares = [text.get_text() for ax in framed_one(run, "gain-map").axes for text in ax.texts]
    assert sum(square.startswith("(") for square in squares) == 3 * 4
    assert "Hollow" not in framed_one(paper_run, "figure-5-gain").subtitle


WITH_INTERVALS = {"figure-4-throughput-3-initiators": 8, "latency": 8, "end-to-end": 12, "log-writes": 16}  # lines


def test_throughput_latency_and_logs_have_intervals_over_three_blocks_and_none_of_two_versions(paper_run, tmp_path):
    cells = [cell for cell in all_cells() if cell.initiators == 3 and cell.threads in (5, 10, 50)]
    often = write_reduced(tmp_path / "run", cells, shape="paper", blocks=3)
    for name, lines in WITH_INTERVALS.items():
        sheet = framed_one(paper_run, name)
        assert not error_bars(sheet)
        assert "Points: mean of versions 2005 and 2008. One run, no interval." in sheet.subtitle
        sheet = framed_one(often, name)
        assert len(error_bars(sheet)) == lines
        assert "Bars: 95 % intervals over 3 blocks. A point is the geometric mean of its blocks." in sheet.subtitle


def test_points_of_fewer_blocks_have_no_bar_and_the_note_says_so(tmp_path):
    cells = [cell for cell in all_cells() if cell.initiators == 3 and cell.threads in (5, 10)]
    run = write_reduced(tmp_path / "run", cells, blocks=3)
    path = run / "reduced" / "cells.parquet"
    table = pd.read_parquet(path)
    table.loc[(table.threads == 10) & (table.block == 2), "state"] = "unsettled"
    table.to_parquet(path)
    assert "16 points with fewer than 3 blocks: no bar." in framed_one(run, "log-writes").subtitle
    table[table.block < 3].to_parquet(path)
    subtitle = framed_one(run, "latency").subtitle
    assert "2 runs, no interval. A point is the geometric mean of its blocks." in subtitle and "bar" not in subtitle


def test_a_run_without_a_valid_cell_has_no_peak(server_run):
    cells = read(server_run).cells.assign(valid=False)
    with style.context(STYLE):
        subtitle = throughput.by_threads(cells, cells, 1).subtitle
    assert "Peak" not in subtitle and "No cell is valid" in subtitle


def error_bars(sheet):
    return [container for ax in sheet.axes for container in ax.containers if container.has_yerr]


def square_colours(sheet):
    return {patch.get_facecolor() for ax in sheet.axes for patch in ax.patches if patch.get_width() == 1}


def test_a_gain_of_one_run_has_no_interval_and_a_pale_colour(paper_run):
    sheet = framed_one(paper_run, "figure-5-gain")
    assert error_bars(sheet) == []
    assert "The largest of 44 gains: +314 % at 150 threads in all with 100 bytes" in sheet.subtitle
    assert "if versions differ by chance" in " ".join(words(sheet))
    map_of_gains = framed_one(paper_run, "gain-map")
    colours = square_colours(map_of_gains)
    assert len(colours) > 20 and to_rgba(NOT_TOLD) not in colours
    assert all(part >= 0.5 for red, green, blue, _ in colours for part in (red, green, blue))
    assert "Pale: without an interval" in map_of_gains.subtitle and "full colour" not in map_of_gains.subtitle


def test_a_gain_of_several_blocks_has_intervals_a_noise_band_and_colours(tmp_path):
    cells = [cell for cell in all_cells() if cell.initiators == 3 and cell.payload_bytes == 100]
    run = write_reduced(tmp_path / "run", cells, shape="paper", blocks=4)
    sheet = framed_one(run, "figure-5-gain")
    assert len(error_bars(sheet)) == 1
    assert "noise: 95 % of single pairs without a gain" in words(sheet)
    assert re.search(
        r"Largest gain distinguished from none: \+\d+ % \(\+\d+ % to \+\d+ %, all points together\) at 1[25]0 threads",
        sheet.subtitle,
    )
    assert "geometric means of versions 2005 and 2008 over 4 blocks; bars: 95 % intervals" in sheet.subtitle
    assert len(square_colours(framed_one(run, "gain-map"))) > 3


def test_the_scale_of_the_gain_is_that_of_the_data(flat_run):
    low, high = framed_one(flat_run, "figure-5-gain").axes[0].get_ylim()
    assert -10 < low < 0 < high < 10  # the noise of the fixture is up to 3 % of a rate


def framed_one(folder, name):
    with style.context(STYLE):
        return drawings(read(folder))[name]()


def break_manifest(run):
    (run / "manifest.json").unlink()


def break_table(run):
    (run / "reduced" / "cells.parquet").write_bytes(b"PAR1")


def break_tables(run):
    shutil.rmtree(run / "reduced")


def age_table(run):
    path = run / "reduced" / "cells.parquet"
    pd.read_parquet(path).drop(columns="state").to_parquet(path)


@pytest.mark.parametrize(
    "damage, said",
    [
        (age_table, "lacks state: run `harness reduce"),
        (break_manifest, "has no manifest.json"),
        (break_table, "cannot be read"),
        (break_tables, "run `harness reduce"),
    ],
)
def test_a_folder_that_cannot_be_drawn_is_an_error_of_one_line(quick_run, tmp_path, damage, said):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    damage(run)
    with pytest.raises(ResultsError, match=said) as caught:
        draw(run)
    assert "\n" not in str(caught.value)


def test_figures_that_cannot_be_written_are_an_error_of_one_line(quick_run, tmp_path):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    (run / "figures").write_text("in the way")
    with pytest.raises(NotWritable, match="figures cannot be written"):
        draw(run)


def test_names_of_servers_stand_in_figures_without_control_characters_and_are_no_formulas(quick_run, tmp_path):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    path = run / "reduced" / "waits.parquet"
    waits = pd.read_parquet(path)
    waits.assign(wait_type=waits.wait_type + NAME[:22]).to_parquet(path)
    sheet = framed_one(run, "waits")
    with style.context(STYLE):
        frame(sheet, NAME, [NAME])
        sheet.savefig(tmp_path / "waits.svg")
    assert [bad for text in words(sheet) for bad in unsafe_in(text, besides="\n")] == []
    assert any("$x$" in text for text in words(sheet)) and ElementTree.parse(tmp_path / "waits.svg")


def test_a_model_is_called_a_model_above_and_below_every_figure(tmp_path):
    settings = {"measure": 1.0, "lab": "simulated", "hardware": "somewhere/paper.toml"}
    run = read(write_reduced(tmp_path / "run", all_cells()[:8], lab="simulated", settings=settings))
    assert origin(run.lab, run.load_model, ["2005", "2008"]) == (
        "A model, not SQL Server (simulated lab; it models 2005 and 2008) · closed loop"
    )
    lab, identity, machine = footer(run)
    assert lab.startswith("Simulated lab: a model, ") and lab.endswith("Not SQL Server, and not a measurement")
    assert "1 s of virtual time measured a cell" in identity
    assert machine.startswith("closed loop · modelled hardware: paper · computed on A processor · 2 processors")


def test_a_run_with_an_unknown_machine_or_lab_is_drawn(tmp_path):
    run = write_reduced(tmp_path / "run", all_cells()[:8], lab="moon", machine=None, started_at=None)
    lines = footer(read(run))
    assert lines[0] == "Moon lab"
    assert "date unknown" in lines[1]
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["machine"] is None


def test_the_difference_of_the_targets_clock_stands_beside_end_to_end_latencies():
    text = "the clock differs from this machine's by +0.31 ms, ± 0.12 ms"
    found = [{"instance": name, "check": "clock", "text": text} for name in ("target", "initiator-1")]
    assert clocks({"lab": "sqlserver", "findings": {"2022": found}}) == f"At the target, {text}."
    assert clocks({"lab": "sqlserver", "findings": {}}) == ""
    assert clocks({"lab": "embedded", "findings": {"2008": found}}) == "", "one machine has one clock"


def test_text_wraps_at_its_separator_and_a_long_word_stands_alone():
    lines = wrap("one two three", " ", 8.0, 0.5)
    assert " ".join(lines) == "one two three"
    assert len(lines) > 1
    assert wrap("incomprehensibilities", " ", 8.0, 0.1) == ["incomprehensibilities"]


def test_nothing_uses_pyplot():
    sources = build.STYLE.parent.glob("*.py")
    assert not any("pyplot" in line for path in sources for line in path.read_text().splitlines() if "import" in line)
