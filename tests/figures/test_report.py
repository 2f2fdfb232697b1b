import dataclasses
import functools
import json
import re
import shutil
from html.parser import HTMLParser

import pandas as pd
import pytest

from harness import claims
from harness.definitions.matrix import Cell, all_cells
from harness.doctor.instance_settings import LICENCE
from harness.figures import report
from harness.figures.headlines import ONE_POOL, USED_ALONE, gain_columns, headlines, highest_rate, peak_columns
from harness.figures.pages import kind
from harness.figures.reduced_run import read
from harness.figures.report import findings
from harness.files.records import NotWritable
from tests.figures.conftest import FIGURES
from tests.results_fixture import quick_cells, write_reduced
from tests.unsafe import NAME, unsafe_in

pytestmark = pytest.mark.drawing


class Page(HTMLParser):
    """The text of a page, and the sources of its images, styles and scripts."""

    def __init__(self, html):
        super().__init__()
        self.words, self.sources = [], []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_data(self, data):
        self.words.append(data)

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name == "src" or (name == "href" and tag == "link")]


@functools.cache
def page(folder):
    """Render the page without figures, which take seconds."""
    run = read(folder)
    return Page(
        report.write(run, [], claims.evaluate(run, lab=run.lab, hardware=run.hardware)).read_text(encoding="utf-8")
    )


def said(run, heading):
    (finding,) = [each for each in findings(read(run)) if each.heading == heading]
    return finding


def test_the_page_needs_no_other_file_and_holds_every_figure(drawn_run):
    run, (*_, path), _ = drawn_run
    assert path == run / "report.html"
    sources = Page(path.read_text(encoding="utf-8")).sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert len(sources) == len(FIGURES)


def test_the_report_and_the_table_beside_it_have_the_same_verdicts(drawn_run):
    run, (*_, path), _ = drawn_run
    html = path.read_text(encoding="utf-8")
    table = pd.read_parquet(run / "reduced" / "claims.parquet")
    section = html[html.index('<details id="claims">') : html.index('<details id="figures">')]
    for row in table.itertuples():
        entry = section[section.index(f'id="claim-{row.claim}"') :]
        assert f'data-name="verdict">{row.verdict}</td>' in entry[: entry.index("</tr>")]
    assert "It says nothing about SQL Server" in section


def test_the_embedded_lab_is_never_shown_as_sql_server(quick_run):
    text = page(quick_run).text
    assert "Embedded lab, not SQL Server (it imitates 2005 and 2008)" in text
    assert "These are not SQL Server's numbers." in text
    assert LICENCE not in text


def test_the_page_of_sql_server_names_the_version_and_the_licences_clause(server_run):
    text = page(server_run).text
    assert "SQL Server 2022" in text and "not SQL Server" not in text
    assert LICENCE in text


def test_warnings_of_the_preflight_are_on_the_page(tmp_path):
    finding = {"instance": "target", "check": "log", "remedy": ""}
    commits = {
        "instance": "target",
        "check": "commits",
        "severity": "information",
        "text": "a commit takes 300 us",
        "remedy": "",
    }
    findings = {
        "2008": [
            {**finding, "severity": "warning", "text": "grows"},
            {**finding, "severity": "information", "text": "is"},
            commits,
        ]
    }
    run = write_reduced(tmp_path / "run", quick_cells()[:2], findings=findings)
    text = page(run).text
    assert "target, log: grows" in text and "target, log: is" not in text
    assert said(run, "Waits").sentences[-1] == "Before the run, target: a commit takes 300 us."


def test_names_of_servers_stand_on_the_page_without_control_characters(tmp_path):
    finding = {"severity": "warning", "instance": NAME, "check": NAME, "text": NAME, "remedy": NAME}
    run = write_reduced(tmp_path / "run", quick_cells(), machine={"processor": NAME, NAME: [NAME]})
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"findings": {"2022": [finding]}, "run_id": NAME}))
    html = page(run).text
    assert unsafe_in(html, besides="\n") == [] and r"q\u001b" in html


def test_the_manifest_is_shown_and_escaped(tmp_path):
    instances = [
        {
            "name": "target",
            "lab_version": "2022",
            "product_version": "16.0.4135.4",
            "edition": "Developer Edition",
            "fingerprint": {
                "server": {"edition": "<b>Developer</b>"},
                "host": None,
                "files": [{"name": "log", "size_mb": 512}, {"name": "data", "size_mb": 4096}],
                "configuration": {f"option {number}": {"value": 1, "value_in_use": number} for number in range(9)},
                "trace_flags": [1117, 1118],
                "refused": {},
            },
        }
    ]
    text = page(write_reduced(tmp_path / "run", quick_cells(("2022",)), lab="sqlserver", instances=instances)).text
    assert "Instance target, version 2022" in text
    assert "edition <b>Developer</b>" in text
    assert "name size mb log 512 data 4096" in text
    assert "value value in use option 0 1 0 option 1 1 1" in text
    assert "trace flags 1117, 1118 refused –" in text
    assert "SQL Server itself, measured by this harness; target 16.0.4135.4 Developer Edition" in text
    assert "commit 0123456789abcdef" in text


def test_headlines_have_a_row_per_number_of_initiators_with_the_papers_peak(paper_run, server_run):
    rows = headlines(read(paper_run))
    assert [row.initiators for row in rows] == ["1 initiator", "2 initiators", "3 initiators"]
    assert [row.peak_paper.text for row in rows] == ["almost 5,000", "almost 12,000", "over 18,000"]
    cells = pd.read_parquet(paper_run / "reduced" / "cells.parquet").query("initiators == 3 and dialog_ratio == 150")
    highest = cells.groupby(["threads", "payload_bytes"]).processed_per_s.agg(lambda rates: rates.prod() ** 0.5).max()
    assert rows[2].peaks[150].text == f"{float(f'{highest:.3g}'):,.0f}"
    assert rows[2].peaks[150].where == "50 threads, 100 bytes"
    assert len(headlines(read(server_run))) == 1


def test_headlines_have_an_interval_over_three_blocks_and_else_say_that_they_have_none(paper_run, tmp_path):
    cells = [cell for cell in all_cells() if cell.threads in (5, 10, 50)]
    often = read(write_reduced(tmp_path / "run", cells, shape="paper", blocks=3))
    numbers = [*peak_columns(often).values(), *gain_columns(often).values()]
    for rows, words in (
        (headlines(often), r"95 %(, all \d+ together)?: \S+ to \S+"),
        (headlines(read(paper_run)), "one run, no interval"),
    ):
        assert all(re.fullmatch(words, number(row).sure) for row in rows for number in numbers)
    low, high = (float(end) for end in headlines(often)[2].gain_largest.sure.partition(": ")[2].split(" to "))
    assert 100 < low < high < 900


def test_a_gain_that_cannot_be_told_from_none_is_no_headline(tmp_path):
    cells = [cell for cell in all_cells() if cell.threads in (5, 50)]
    run = read(write_reduced(tmp_path / "run", cells, blocks=3))
    pairs = run.gain.assign(factor=[0.7 if block == 1 else 1.3 for block in run.gain.block])
    (row, *_) = headlines(dataclasses.replace(run, gain=pairs))
    assert (row.gain_largest.text, row.gain_largest.sure) == ("none", "no gain can be distinguished from none")


def test_a_lab_that_can_show_no_gain_says_so_and_has_no_largest_one(paper_run, server_run):
    assert "largest gain" not in gain_columns(read(paper_run)), "a run of the embedded lab"
    assert said(paper_run, "The 150 trick").sentences[0] == (
        "The embedded lab has no page latches, so the 150 trick cannot pay on it."
    )
    assert "largest gain" in gain_columns(read(server_run))
    assert said(server_run, "The 150 trick").sentences[0].startswith("Mean gain of every 150th dialog")


def test_a_small_gain_of_one_run_is_a_whole_percentage(server_run):
    run = read(server_run)
    (row,) = headlines(dataclasses.replace(run, gain=run.gain.assign(factor=1.00092)))
    assert (row.gain_mean.text, row.gain_mean.sure) == ("0 %", "one run, no interval")


def test_blocks_are_counted_as_measurements_of_cells(tmp_path):
    run = write_reduced(tmp_path / "run", [Cell.parse("i1-t5-r1-p100-v2022")], lab="sqlserver", blocks=3)
    cells = pd.read_parquet(run / "reduced" / "cells.parquet")
    cells.loc[cells.block == 2, "state"] = "unsettled"
    cells.to_parquet(run / "reduced" / "cells.parquet")
    assert said(run, "Throughput").sentences[1] == (
        "1 of 3 measurements of 1 cell does not count (1 unsettled): it is hollow in the figures where a cell counts in "
        "no block, and listed under “Cells that do not count”."
    )


def test_conversations_that_cells_left_behind_are_said_with_their_state_and_instance(tmp_path):
    run = write_reduced(tmp_path / "run", [Cell.parse("i1-t5-r1-p100-v2022")], lab="sqlserver", blocks=3)
    cells = pd.read_parquet(run / "reduced" / "cells.parquet")
    left = cells[["cell_id", "block"]].assign(instance="target", state="CONVERSING", conversations=100, messages=101)
    left[left.block < 3].to_parquet(run / "reduced" / "leaks.parquet")
    assert said(run, "Throughput").sentences[1] == (
        "2 of 3 measurements of 1 cell left conversations behind that nobody ends (200 on target, most of them "
        "CONVERSING, by 202 messages): the application fills its database."
    )


def test_a_loss_is_no_largest_gain(paper_run):
    run = read(paper_run)
    (row, *_) = headlines(dataclasses.replace(run, gain=run.gain.assign(factor=0.9)))
    assert (row.gain_largest.text, row.gain_largest.sure) == ("none", "one run, no interval")


def test_without_a_valid_cell_there_is_no_headline_and_every_cell_is_listed_with_its_reason(quick_run, tmp_path):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    cells = pd.read_parquet(run / "reduced" / "cells.parquet")
    reasons = [f"the target processed {number} % of what was sent" for number in range(len(cells))]
    cells.assign(state="behind", state_reason=reasons).to_parquet(run / "reduced" / "cells.parquet")
    assert {row.peaks[150].text for row in headlines(read(run))} == {"–"}
    text = page(run).text
    assert "None of 24 cells is valid, so there is no peak." in text
    alone = dataclasses.replace(read(run), cells=read(run).cells.head(1))
    assert highest_rate(alone) == "The cell is not valid, so there is no peak."
    assert all(f"behind {reason}" in text for reason in reasons)
    assert "Cells that do not count" not in page(quick_run).text


def test_peaks_use_valid_cells_and_the_states_of_the_others_are_counted(paper_run, tmp_path):
    run = shutil.copytree(paper_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    cells = pd.read_parquet(run / "reduced" / "cells.parquet")
    cells.loc[cells.threads == 50, "state"] = "disturbed"
    cells.loc[cells.cell_id == "i1-t1-r1-p100-v2008", "state"] = "unsettled"
    cells.to_parquet(run / "reduced" / "cells.parquet")
    assert not any(row.peaks[150].where.startswith("50 threads") for row in headlines(read(run)))
    disturbed = int((cells.threads == 50).sum())
    sentences = said(run, "Throughput").sentences
    assert f"{disturbed + 1} of {len(cells)} cells do not count ({disturbed} disturbed and 1 unsettled)" in sentences[1]


def test_a_run_that_was_asked_for_a_precision_says_which_gains_never_got_there(tmp_path):
    cells = [cell for cell in all_cells(("2008",)) if cell.threads in (5, 50) and cell.initiators == 3]
    run = write_reduced(tmp_path / "run", cells, shape="paper", blocks=4, lab="sqlserver")
    *_, last = said(run, "The 150 trick").sentences
    assert last == ONE_POOL and len(said(run, "The 150 trick").sentences) == 2
    manifest = json.loads((run / "manifest.json").read_text())
    settings = {**(manifest.get("settings") or {}), "precision": 0.01}
    (run / "manifest.json").write_text(json.dumps(manifest | {"settings": settings}))
    sentence = said(run, "The 150 trick").sentences[1]
    [shown] = re.match(r"0 of 8 gains are known within 1 %\. Not there: (.*)\.", sentence).groups()
    assert len(re.findall(r"i3-t\d+-r150-p\d+-v2008 \(4 valid blocks, [\d.]+ % wide\)", shown)) == 8


def test_a_model_says_that_only_used_dialogs_were_warmed_up(tmp_path):
    run = write_reduced(tmp_path, quick_cells(), shape="paper", lab="simulated")
    sentences = said(run, "The 150 trick").sentences
    assert USED_ALONE in sentences and ONE_POOL not in sentences


def test_page_spread_and_latch_shares_are_described_in_sentences(quick_run):
    assert said(quick_run, "Pages of the dialogs").sentences == (
        "Every dialog used: 50 dialogs lie on 1 page, all share their page with others (up to 50 on one).",
        "Every 150th dialog used: 50 dialogs lie on 50 pages, none shares its page with another.",
        "Conversation handles ascend in the order in which the dialogs were begun on 2005 and 2008.",
    )
    latches = said(quick_run, "Page latches").sentences
    shares = pd.read_parquet(quick_run / "reduced" / "latch_share.parquet")
    rows = shares[(shares.instance != "target") & (shares.dialog_ratio == 1)]
    share = 100 * rows.times_seen[rows.object_name == "sys.sysdesend"].sum() / rows.times_seen.sum()
    assert latches[0].startswith("An initiator, every dialog used: ")
    assert f"sys.sysdesend {share:.0f} %" in latches[0]
    assert "the queue's own table" in latches[2]
    assert latches[-1] == "The instances' own totals (sys.dm_db_index_operational_stats) put the same objects first."


def test_the_report_says_where_samples_and_totals_put_another_object_first(quick_run, tmp_path):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    path = run / "reduced" / "index_waits.parquet"
    totals = pd.read_parquet(path)
    of_initiators = (totals.instance != "target") & (totals.dialog_ratio == 1)
    unlisted = of_initiators & (totals.object_name == "sys.sysdesend")
    totals[~unlisted].to_parquet(path)
    disagree = said(run, "Page latches").sentences[-1]
    assert re.fullmatch(
        r"An initiator, every dialog used: samples and totals disagree\. Most tasks were seen waiting for sys\.sysdesend "
        r"\(\d+ % of the samples\), and sys\.sysxmitqueue has the longest waits in "
        r"sys\.dm_db_index_operational_stats \(\d+ % of the time\), which do not list sys\.sysdesend\.",
        disagree,
    )
    path.unlink()
    assert "totals" not in said(run, "Page latches").sentences[-1]


def test_the_order_of_handles_is_described_by_version(quick_run, tmp_path):
    run = shutil.copytree(quick_run, tmp_path / "run", ignore=shutil.ignore_patterns("figures"))
    path = run / "reduced" / "page_spread.parquet"
    spread = pd.read_parquet(path)
    spread.loc[(spread.server_version == "2008") & (spread.used_dialogs > 1), "handles_sequential"] = False
    spread.to_parquet(path)
    assert said(run, "Pages of the dialogs").sentences[-1] == (
        "Conversation handles ascend in the order in which the dialogs were begun on 2005; "
        "they do not ascend in the order in which the dialogs were begun on 2008."
    )


def test_missing_records_are_mentioned(tmp_path):
    run = write_reduced(tmp_path / "run", [Cell.parse("i2-t7-r1-p500-v2022")], lab="sqlserver")
    for name in ("page_spread", "latch_share", "file_io"):
        (run / "reduced" / f"{name}.parquet").unlink()
    text = page(run).text
    for sentence in (
        "The pages of the dialogs were not read (that needs the dedicated administrator connection).",
        "Tasks that wait for page latches were not sampled.",
        "The instances' database files were not observed.",
        "No cell was completed with both dialog ratios, 1 and 150.",
    ):
        assert sentence in text


def test_versions_are_compared_where_there_are_two(paper_run, server_run):
    (sentence,) = said(paper_run, "Versions").sentences
    assert re.match(r"2008 processed \d\.\d times the messages per second of 2005 \(geometric mean of 264", sentence)
    assert "Versions" not in [finding.heading for finding in findings(read(server_run))]


def test_files_that_grew_are_mentioned(tmp_path):
    run = write_reduced(tmp_path / "run", quick_cells())
    assert said(run, "Logs and files").sentences[-1] == "No file grew in a measured window."
    files = pd.read_parquet(run / "reduced" / "file_io.parquet")
    files.loc[files.cell_id == files.cell_id.iloc[0], "growth_bytes"] = 64 * 2**20
    files.to_parquet(run / "reduced" / "file_io.parquet")
    assert "Files grew in the measured window of 1 cell, by up to 64 MiB" in said(run, "Logs and files").sentences[-1]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("sys.sysdesend", "sys.sysdesend"),
        ("queue dbo.MySSBLabTestQueue", "the queue's own table"),
        ("dbo.messageDrop", "other objects"),
        ("not resolved", "not resolved"),
        (None, "other objects"),
    ],
)
def test_objects_belong_to_a_few_kinds(name, expected):
    assert kind(name) == expected


def test_a_page_that_cannot_be_written_is_an_error_of_one_line(tmp_path):
    run = write_reduced(tmp_path / "run", all_cells()[:2])
    (run / "report.html").mkdir()
    with pytest.raises(NotWritable, match=r"report\.html cannot be written"):
        page(run)
