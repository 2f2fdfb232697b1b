"""Figures, report, claims and table of runs of other matrices than the paper's."""

import dataclasses
import io
import itertools
import re

import pandas as pd
import pytest
from matplotlib import style
from matplotlib.text import Text

from harness.claims.judgement import Verdict
from harness.definitions.matrix import Cell, all_cells
from harness.definitions.whitepaper import CLAIMS
from harness.figures import comparison, one_axis, parts, report, results_table, trick_answer
from harness.figures.build import STYLE, draw, drawings
from harness.figures.reduced_run import Missing, footer, judge, origin, read
from harness.files import matrix_file
from harness.output.reporting import SafeConsole
from harness.results import reduced_summary
from tests.figures.conftest import FIGURES
from tests.noting import FigureReporter
from tests.results_fixture import quick_cells, write_manifest, write_reduced

pytestmark = pytest.mark.drawing
OWN = [
    Cell("2008", initiators, ratio, threads, payload)
    for initiators in (1, 3)
    for ratio in (1, 50)
    for threads in (1, 7, 64)
    for payload in (3000, 4000, 5000)
]
TRICK = matrix_file.read("trick").cells(("2022",), initiators_max=3)


def run_of(folder, chosen, **more):
    return read(write_reduced(folder / "run", chosen, **more))


def sheets(run):
    found = {}
    with style.context(STYLE):
        for name, drawing in drawings(run).items():
            try:
                found[name] = drawing()
            except Missing:
                continue
    return found


def words(sheet):
    return " ".join([*(text.get_text() for text in sheet.findobj(Text)), sheet.title, sheet.subtitle])


def test_another_matrix_has_the_figures_of_its_axes_without_a_word_of_the_paper(tmp_path):
    run = run_of(tmp_path, OWN, shape="paper", blocks=3)
    found = sheets(run)
    assert {"figure-2-throughput-1-initiator", "figure-4-throughput-3-initiators", "figure-5-gain"} <= set(found)
    for name in (
        "figure-2-throughput-1-initiator",
        "figure-4-throughput-3-initiators",
        "figure-5-gain",
        "gain-map",
        "waits",
        "page-latches",
    ):
        assert "paper" not in words(found[name]), name
    assert "every 50th dialog" in found["figure-5-gain"].title
    assert "4,000 bytes" in {end.name for end in found["figure-5-gain"].line_ends}
    page = report.write(run, [], judge(run)).read_text(encoding="utf-8")
    assert "claims and this run" not in page and "The paper, SQL Server:" not in page


def test_a_run_with_cells_of_the_paper_keeps_its_marks(tmp_path):
    found = sheets(run_of(tmp_path, [*OWN, *quick_cells()], shape="paper"))
    assert "paper" in words(found["figure-4-throughput-3-initiators"]) and "paper" in words(found["figure-5-gain"])
    assert set(FIGURES) <= set(found)


def test_another_workload_is_named_and_has_no_word_of_the_paper(tmp_path):
    workload = {"name": "orders", "about": "Orders of a <shop>."}
    run = run_of(tmp_path, quick_cells(), shape="paper", settings={"workload": workload})
    page = report.write(run, [], judge(run)).read_text(encoding="utf-8")
    assert "<p>Workload orders. Orders of a &lt;shop&gt;. Clients call" in page and "The paper" not in page
    assert origin(run.lab, run.load, run.versions).endswith("closed loop · workload orders")
    assert "workload orders" in " ".join(footer(run))
    found = sheets(run)
    for name in ("figure-4-throughput-3-initiators", "figure-5-gain", "gain-map"):
        assert "paper" not in words(found[name]), name
    assert {one.verdict for one in judge(run)} == {Verdict.NOT_MEASURED}


def counted_run(folder):
    """A run whose messages were counted: what needs to match them is null."""
    counted = {"settings": {"workload": {"name": "orders", "accounting": {"by": "count"}}}}
    run = write_reduced(folder, quick_cells(), shape="paper", blocks=3, **counted)
    path = run / "reduced" / "cells.parquet"
    cells = pd.read_parquet(path)
    unknown = [name for name in cells if name.startswith("end_to_end") or name == "receives_in_window"]
    cells.assign(**dict.fromkeys(unknown, float("nan"))).to_parquet(path, index=False)
    return run


@pytest.mark.usefixtures("unrendered")
def test_a_run_whose_messages_were_counted_says_so_and_leaves_out_what_nobody_knows(tmp_path):
    folder, reporter = counted_run(tmp_path / "run"), FigureReporter()
    *_, page = draw(folder, progress=reporter)
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "Messages were counted, not matched one by one" in text
    assert "end to end" not in text.lower().replace("end-to-end latency", "")
    assert reporter.left_out["end-to-end"] == "messages were counted, so nobody knows when each was processed"
    assert reduced_summary.read(folder).findings[-1].startswith("Messages were counted")


@pytest.mark.usefixtures("unrendered")
def test_runs_whose_messages_were_counted_are_compared_by_rates_and_calls(tmp_path):
    a, b = (counted_run(tmp_path / name) for name in "ab")
    console = SafeConsole(width=200, record=True, quiet=False, file=io.StringIO())
    compared = comparison.compare(a, b, console=console)
    text = console.export_text()
    assert "call p50" in text and "end to end" not in text
    assert compared.cells.latency_us_p50_ratio.notna().all() and compared.cells.end_to_end_us_p50_ratio.isna().all()


def test_payloads_of_any_matrix_stay_apart():
    with style.context(STYLE):
        of_paper = [parts.payload_style(payload)["color"] for payload in (100, 1024)]
        assert [parts.payload_style(payload, (100, 1024))["color"] for payload in (100, 1024)] == of_paper
        drawn = (64, 100, 3000, 4096)
        assert len({parts.payload_style(payload, drawn)["color"] for payload in drawn}) == len(drawn)


RATIOS = (1, 50, 100, 144, 145, 150, 300)


def test_every_dialog_ratio_has_a_line_of_its_own_on_the_pages_of_dialogs(tmp_path):
    cells = [Cell("2008", 3, ratio, threads, 100) for ratio in RATIOS for threads in (10, 30, 50)]
    sheet = sheets(run_of(tmp_path, cells))["page-spread"]
    lines = [bars.lines[0] for bars in sheet.axes[0].containers]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(RATIOS)
    assert "Every 150th dialog" in sheet.subtitle and "Every 144th dialog" not in sheet.subtitle


@pytest.mark.parametrize(
    ("present", "shown"),
    [((1, 150), [150, 1]), (RATIOS, [150, 1]), ((1, 50), [50, 1]), ((50, 300), [300, 50]), ((7,), [7]), ((), [])],
)
def test_figures_of_two_ratios_show_the_trick_or_the_highest_against_every_dialog_or_the_lowest(present, shown):
    assert parts.shown_ratios(present) == shown


def test_figures_of_one_ratio_and_of_two_draw_those_of_any_matrix(tmp_path):
    found = sheets(run_of(tmp_path, OWN, shape="paper"))
    for name in ("latency", "end-to-end", "log-writes"):
        assert "every 50th dialog" in found[name].title, name
    assert "Longest, every dialog used, then every 50th dialog used" in found["waits"].subtitle
    assert {ax.get_title(loc="left") for ax in found["figure-4-throughput-3-initiators"].axes} == {
        "Every 50th dialog used",
        "Every dialog used",
    }


def test_a_comparison_draws_the_gain_and_the_shape_of_any_ratios(tmp_path):
    cells = [Cell("2008", 1, ratio, threads, 100) for ratio in (1, 20, 50, 100, 144, 300) for threads in (1, 10, 50)]
    runs = [write_reduced(tmp_path / name, cells, blocks=3) for name in ("a", "b")]
    path = runs[1] / "manifest.json"
    path.write_text(path.read_text().replace('"run_id": "b"', '"run_id": "c"'))
    files = {file.name for file in comparison.compare(*runs, console=SafeConsole(quiet=True)).files}
    assert {"gain.png", "shape.png", "ratio-map.png"} <= files
    assert "Gain of using every 300th dialog" in (tmp_path / "compare-a-b" / "gain.svg").read_text()


@pytest.mark.parametrize(
    ("axis", "cells"),
    [
        ("dialog_ratio", [Cell("2008", 3, ratio, 50, 100) for ratio in (1, 2, 50, 144, 300)]),
        (
            "payload_bytes",
            [Cell(version, 1, 1, 10, size) for size in (100, 3000, 8000) for version in ("2005", "2008")],
        ),
        ("initiators", [Cell("2008", number, 150, 10, 100) for number in (1, 2, 3)]),
    ],
)
def test_a_matrix_of_one_axis_has_a_plain_line_with_intervals(axis, cells, tmp_path):
    run = run_of(tmp_path, cells, blocks=3)
    sheet = sheets(run)[one_axis.name(axis)]
    [ax] = sheet.axes
    [bars] = ax.containers
    line, _, [whiskers] = bars.lines
    assert list(line.get_xdata()) == sorted({getattr(cell, axis) for cell in cells})
    assert all(low < high for (_, low), (_, high) in whiskers.get_segments())
    assert "95 % intervals over 3 blocks" in sheet.subtitle
    sheet.draw_without_rendering()
    numbers = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    assert len(numbers) > 2 and all(left.x1 < right.x0 for left, right in itertools.pairwise(numbers))


def test_a_matrix_of_threads_or_of_several_axes_needs_no_figure_of_one_axis(tmp_path):
    assert one_axis.of(run_of(tmp_path / "a", [Cell("2008", 1, 1, threads, 100) for threads in (1, 5)]).cells) is None
    assert one_axis.of(run_of(tmp_path / "b", OWN).cells) is None
    assert one_axis.of(run_of(tmp_path / "c", OWN[:1]).cells) is None


def verdicts(run):
    return {judged.claim.key: judged.verdict for judged in judge(run)}


def test_a_claim_about_the_whole_matrix_never_fails_on_a_slice(tmp_path):
    found = verdicts(run_of(tmp_path / "quick", quick_cells(), shape="flat", blocks=3))
    assert found["matrix_complete"] == found["gain_max"] == found["peak_3_initiators"] == Verdict.NOT_MEASURED
    assert found["gain_noticeable_from_30"] == Verdict.FAILS, "the slice has the pairs that decide"
    half = [cell for cell in all_cells() if cell.threads < 20]
    assert verdicts(run_of(tmp_path / "slice", half))["matrix_complete"] == Verdict.NOT_MEASURED
    broken = run_of(tmp_path / "broken", half)
    write_manifest(broken.folder, cells=528, settings={"server_versions": ["2005", "2008"]})
    assert verdicts(read(broken.folder))["matrix_complete"] == Verdict.FAILS


def test_no_claim_is_measured_by_cells_that_the_paper_has_not(tmp_path):
    assert set(verdicts(run_of(tmp_path, OWN)).values()) == {Verdict.NOT_MEASURED}
    assert len(verdicts(run_of(tmp_path / "again", OWN))) == len(CLAIMS)


def trick_run(folder, **more):
    settings = {"measure": 1.0, "matrix": {"name": "trick"}}
    return run_of(folder, TRICK, settings=settings, **({"lab": "sqlserver", "shape": "paper", "blocks": 4} | more))


def test_the_report_of_trick_begins_with_the_answer_its_interval_and_its_evidence(tmp_path):
    run = trick_run(tmp_path)
    answer = trick_answer.answer(run)
    assert answer.startswith("The 150 trick pays here: +") and "(95 %, all loads together: +" in answer
    assert "3 initiators × 60 threads, 100 bytes a message" in answer
    evidence = trick_answer.evidence(run)
    assert [sentence.partition(":")[0] for sentence in evidence] == ["Loads", "Pages", "Page latches", "Waits"]
    page = report.write(run, [], judge(run)).read_text(encoding="utf-8")
    after_title = page.partition("</h1>")[2]
    assert after_title.index("The 150 trick pays here") < after_title.index("Clients call a send procedure")


def test_trick_says_that_it_does_not_pay_or_that_nobody_can_tell(tmp_path):
    flat = trick_answer.answer(trick_run(tmp_path / "flat", shape="flat", blocks=8))
    loads = len({cell.pair for cell in TRICK})
    assert flat.startswith(f"The 150 trick does not pay here: its mean gain over {loads} loads is ")
    once = trick_answer.answer(trick_run(tmp_path / "once", blocks=1))
    assert once == "Whether the 150 trick pays here cannot be told: one run, no interval."
    single = [cell for cell in TRICK if cell.dialog_ratio == 1]
    alone = run_of(tmp_path / "alone", single, lab="sqlserver")
    assert trick_answer.answer(alone).endswith(
        "cannot be told: no cell was completed with both dialog ratios, 1 and 150."
    )


def test_a_lab_on_which_the_trick_cannot_pay_is_said_to_be_one(tmp_path):
    answer = trick_answer.answer(trick_run(tmp_path, lab="embedded", shape="flat"))
    assert answer.startswith("The embedded lab has no page latches, so the 150 trick cannot pay on it. ")
    assert trick_answer.answer(trick_run(tmp_path / "m", lab="simulated")).startswith(
        "A model, not SQL Server: the 150"
    )


def test_the_terminal_shows_each_cell_of_a_small_run_and_peaks_and_gains_of_a_large_one(tmp_path, paper_run):
    heading, *rows = results_table.rows(run_of(tmp_path, OWN[:12], blocks=3))
    assert heading[:3] == ["cell", "processed/s", "95 % interval"]
    assert sorted(row[0] for row in rows) == sorted(cell.id for cell in OWN[:12])
    assert all(" to " in row[2] and float(row[3]) > 0 and row[-1] == "valid" for row in rows)
    large = read(paper_run)
    heading, *rows = results_table.rows(dataclasses.replace(large, manifest={**large.manifest, "lab": "sqlserver"}))
    assert heading == ["initiators", "peak, every dialog", "peak, every 150th dialog", "largest gain", "mean gain"]
    assert [row[0] for row in rows] == ["1 initiator", "2 initiators", "3 initiators"]


def test_the_peaks_of_a_large_run_are_those_of_its_own_ratios_in_terminal_and_report(tmp_path):
    cells = [Cell("2022", 1, ratio, threads, 3000) for ratio in (1, 42) for threads in range(1, 14)]
    run = run_of(tmp_path, cells, blocks=1)
    heading, row = results_table.rows(run)
    assert heading == ["initiators", "peak, every dialog", "peak, every 42nd dialog"]
    assert all(float(number.splitlines()[0].replace(",", "")) > 0 for number in row[1:])
    page = report.write(run, [], judge(run)).read_text(encoding="utf-8")
    shown = re.findall("<th>([^<]+)</th>", page[: page.index("</thead>")])
    assert shown[:-2] == heading[1:] and [words.split(" at ")[0] for words in shown[-2:]] == [
        "latency of a call",
        "end to end",
    ]
    assert [each.splitlines()[0] for each in row[1:]] == re.findall("<td data-name[^>]+>([^<]+)<small>", page)[:2]


def test_a_mean_of_sizes_is_said_to_be_one_wherever_the_payload_is_named(tmp_path):
    cells = [Cell("2022", 1, ratio, threads, 2000) for ratio in (1, 50, 150) for threads in (1, 7, 64)]
    body = {"size": {"uniform": [1000, 3000]}}
    own = run_of(tmp_path / "own", cells, blocks=3, settings={"workload": {"name": "orders", "body": body}})
    same = run_of(tmp_path / "same", cells, blocks=3)
    for run, is_mean in ((own, True), (same, False)):
        page = report.write(run, [], judge(run)).read_text(encoding="utf-8")
        texts = {"report": re.sub("<[^>]+>", " ", page[: page.index('id="circumstances"')])}
        for name, sheet in sheets(run).items():
            texts[name] = " ".join([words(sheet), *(end.name for end in sheet.line_ends)])
        texts["answer"] = trick_answer.answer(run)
        named = {name: text for name, text in texts.items() if "2,000 bytes" in text}
        assert {"report", "figure-2-throughput-1-initiator", "figure-5-gain", "gain-map", "gain-by-ratio"} < set(named)
        for name, text in named.items():
            means = re.findall("2,000 bytes(?: a message)? on average", text)
            assert len(means) == text.count("2,000 bytes") * is_mean, name
