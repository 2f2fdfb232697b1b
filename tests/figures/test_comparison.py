import io
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lxml import etree

from harness.cli import main
from harness.definitions.matrix import all_cells
from harness.figures import comparison, gate
from harness.figures.circumstances import forbidding, remarkable
from harness.figures.comparison import compare
from harness.figures.comparison_document import ComparisonDocument
from harness.figures.ratios import QUANTITIES, by_cell, groups, pair
from harness.figures.reduced_run import Run, read
from harness.files.records import NotWritable, ResultsError
from harness.output.reporting import SafeConsole
from tests.results_fixture import manifest, quick_cells, write_reduced

pytestmark = pytest.mark.drawing

SECURE = {"dialog_security": True, "endpoint_encryption": False}
CELLS = quick_cells()


@pytest.fixture
def console():
    return SafeConsole(file=io.StringIO(), width=100)


@pytest.fixture
def undrawn(monkeypatch):
    """The footer of the figures of a comparison, which are not drawn."""
    feet = []
    monkeypatch.setattr(comparison, "write", lambda drawings, folder, head, foot, progress: feet.extend(foot) or [])
    return feet


def printed(console):
    return console.file.getvalue()


def of_version(version, names, values, **columns):
    return table(
        server_version=version,
        cell_id=[f"{name}-v{version}" for name in names],
        threads=range(len(names)),
        processed_per_s=values,
        **columns,
    )


def in_blocks(rates, **columns):
    """Cells by name, each with its rates of blocks 1, 2, ..."""
    rows = [
        {"cell_id": name, "block": block, "processed_per_s": value}
        for name, values in rates.items()
        for block, value in enumerate(values, 1)
    ]
    return table(**pd.DataFrame(rows).to_dict("list"), **columns)


def test_cells_without_a_common_version_are_compared_as_geometric_means_over_the_versions():
    a = pd.concat([of_version("2005", "xy", [100.0, 40.0]), of_version("2008", "xy", [400.0, 40.0])])
    b = of_version("2022", "xyz", [50.0, 80.0, 1.0])
    both = by_cell(*pair(a, b), 0.05)
    assert list(both.processed_per_s_ratio) == [0.25, 2.0]
    assert list(both.cell_id) == ["i1-t0-r1-p100", "i1-t1-r1-p100"]
    assert set(both.server_version_a) == {"2005 and 2008"} and set(both.server_version_b) == {"2022"}


def test_a_mean_over_versions_counts_only_if_all_do():
    a = pd.concat([of_version("2005", "x", [1.0]), of_version("2008", "x", [1.0], valid=False)])
    assert not by_cell(*pair(a, of_version("2022", "x", [1.0])), 0.05).counts.any()


def table(**columns):
    rows = {
        "server_version": "2008",
        "block": 1,
        "initiators": 1,
        "threads": 1,
        "dialog_ratio": 1,
        "payload_bytes": 100,
        "total_threads": 1,
        "sent_per_s": 1.0,
        "until_drained_per_s": 1.0,
        "valid": True,
        "saturated": False,
        **dict.fromkeys([name for name in QUANTITIES if name.endswith(("p50", "p95", "p99"))], 1.0),
    }
    return pd.DataFrame(rows | columns)


def test_a_ratio_is_b_divided_by_a_of_cells_that_both_have():
    a = table(cell_id=["one", "two", "zero"], processed_per_s=[100.0, 50.0, 0.0])
    b = table(cell_id=["two", "zero", "three"], processed_per_s=[75.0, 9.0, 1.0])
    both = by_cell(*pair(a, b), 0.05).set_index("cell_id")
    assert list(both.index) == ["two", "zero"]
    assert both.processed_per_s_ratio["two"] == 1.5
    assert pd.isna(both.processed_per_s_ratio["zero"])


def test_a_cell_of_several_blocks_has_an_interval_and_a_verdict():
    a = in_blocks({"fast": [100, 101, 99], "same": [50, 51, 49], "slow": [80, 81, 79], "unsure": [10, 30, 20]})
    b = in_blocks({"fast": [150, 151, 149, 150], "same": [51, 50, 50], "slow": [40, 41, 42], "unsure": [30, 9, 20]})
    both = by_cell(a, b, 0.05).set_index("cell_id")
    assert both.verdict.to_dict() == {
        "fast": "faster",
        "same": "same within 5 %",
        "slow": "slower",
        "unsure": "cannot tell",
    }
    assert (both.processed_per_s_ratio_low < both.processed_per_s_ratio).all()
    assert (both.processed_per_s_ratio_high > both.processed_per_s_ratio).all()
    assert both.blocks_b.to_dict() == {"fast": 4, "same": 3, "slow": 3, "unsure": 3}


def test_a_cell_of_one_block_has_a_ratio_and_no_verdict():
    (row,) = by_cell(in_blocks({"x": [100]}), in_blocks({"x": [10]}), 0.05).itertuples()
    assert (row.processed_per_s_ratio, row.verdict) == (0.1, "cannot tell")
    assert pd.isna(row.processed_per_s_ratio_low)


def test_blocks_that_are_not_valid_do_not_count():
    a, b = in_blocks({"x": [100, 101, 99, 100]}), in_blocks({"x": [100, 99, 101, 2]})
    b["valid"] = b.processed_per_s > 50
    (row,) = by_cell(a, b, 0.05).itertuples()
    assert (row.processed_per_s_ratio, row.blocks_b, row.verdict) == (1.0, 3, "same within 5 %")
    b["valid"] = False
    (row,) = by_cell(a, b, 0.05).itertuples()
    assert (row.counts, row.verdict) == (False, "cannot tell")
    assert groups(a, b, 0.05) == []


def test_all_cells_together_tell_what_none_of_them_tells_alone():
    rng = np.random.default_rng(1)
    names = [f"cell-{number}" for number in range(100)]
    a = in_blocks({name: 100 * np.exp(rng.normal(0, 0.3, 3)) for name in names})
    b = in_blocks({name: 80 * np.exp(rng.normal(0, 0.3, 3)) for name in names})
    cells, whole = by_cell(a, b, 0.05), groups(a, b, 0.05)
    assert set(cells.verdict) == {"cannot tell"}
    assert str(whole[0].verdict) == "slower"
    assert whole[0].ratios["processed_per_s"].ratio == pytest.approx(0.8, abs=0.07)
    assert [words.split(" (")[0] for words in gate.judge(a, b, cells, whole, 0.05, set()).slowdowns] == [
        "all 100 cells together"
    ]


def test_a_cell_repeated_in_one_run_only_does_not_move_the_whole():
    a = in_blocks({"x": [100, 101, 99], "fast": [900, 901, 899]})
    b = in_blocks({"x": [100, 99, 101], "fast": [900]})
    whole = groups(a, b, 0.05)[0]
    assert (whole.cells, whole.ratios["processed_per_s"].ratio) == (1, pytest.approx(1.0, abs=1e-4))


def test_latencies_from_end_to_end_are_compared():
    a = in_blocks({"x": [100, 101, 99]}, end_to_end_us_p99=1000.0)
    b = in_blocks({"x": [100, 101, 99]}, end_to_end_us_p99=2500.0)
    assert by_cell(a, b, 0.05).end_to_end_us_p99_ratio.tolist() == [2.5]
    assert groups(a, b, 0.05)[0].ratios["end_to_end_us_p99"].ratio == pytest.approx(2.5)


def test_two_runs_give_figures_side_by_side_and_a_table_of_ratios(tmp_path, console):
    a = write_reduced(tmp_path / "a", CELLS)
    b = write_reduced(tmp_path / "b", CELLS, factor=1.25)
    paths = compare(a, b, console=console).files
    folder = tmp_path / "compare-a-b"
    assert {path.parent for path in paths} == {folder}
    throughputs = {"throughput-1-initiator", "throughput-2-initiators", "throughput-3-initiators"}
    names = throughputs | {"gain", "ratio-map", "shape"}
    expected = {f"{name}.{ending}" for name in names for ending in ("png", "svg")} | {"ratios.csv"}
    assert {path.name for path in folder.iterdir()} == {path.name for path in paths} == expected
    written = pd.read_csv(folder / "ratios.csv")
    assert len(written) == len(CELLS)
    assert set(written.verdict) == {"cannot tell"}
    assert written.processed_per_s_ratio.between(1.2499, 1.2501).all()
    origin = written.iloc[:, :6].drop_duplicates()
    assert list(origin) == [f"{name}_{side}" for side in "ab" for name in ("lab", "run_id", "load_model")]
    assert origin.to_numpy().tolist() == [["embedded", "a", "closed loop", "embedded", "b", "closed loop"]]
    assert "1.250" in printed(console) and "one run, no interval" in printed(console)
    assert [line for line in printed(console).splitlines() if line.startswith("!")] == [
        "! What differs between runs as wholes is unknown, and in no interval: harness aa measures it"
    ]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("judged", "said", "failures"),
    [
        (gate.Gate(["i1-t1: 0.8"]), "slower", "1"),
        (gate.Gate([], ["too few"]), "cannot tell", "0"),
        (gate.Gate(), "passed", "0"),
    ],
)
def test_other_programs_read_a_comparison(tmp_path, console, judged, said, failures):
    a, b = (write_reduced(tmp_path / name, CELLS[:4], factor=factor) for name, factor in (("a", 1.0), ("b", 0.8)))
    document = replace(compare(a, b, tmp_path / "out", console=console), gate=judged).document()
    assert ComparisonDocument.model_validate_json(document.as_json()) == document
    assert (document.gate, document.cells[0].ratio, document.cells[0].ratio_low) == (
        said,
        pytest.approx(0.8, 1e-3),
        None,
    )
    suite = etree.fromstring(document.as_junit())
    assert (
        (suite.get("failures"), len(suite))
        == (failures, int(suite.get("tests")))
        == (failures, 1 + 4 + len(document.groups))
    )
    markdown = document.as_markdown()
    assert document.conclusion in markdown and "| all | 0.800 | no interval | cannot tell |" in markdown
    assert all(phrase in markdown for phrase in (*judged.slowdowns, *judged.unknown))
    with pytest.raises(NotWritable, match="cannot be written"):
        document.write(json=tmp_path / "missing" / "file.json", junit=None, markdown=None)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_number_and_no_verdict_is_cut_off_in_a_narrow_terminal(tmp_path, width):
    narrow = SafeConsole(file=io.StringIO(), width=width)
    a, b = (write_reduced(tmp_path / name, quick_cells(), factor=factor) for name, factor in (("a", 1.0), ("b", 0.5)))
    compare(a, b, tmp_path / "out", console=narrow)
    words = narrow.file.getvalue().split()
    assert "…" not in narrow.file.getvalue() and {"b/a", "verdict", "cannot", "tell", "0.500"} <= set(words)


@pytest.mark.usefixtures("undrawn")
def test_cells_of_only_one_run_are_left_out_with_a_note(tmp_path, console):
    a = write_reduced(tmp_path / "a", CELLS)
    b = write_reduced(tmp_path / "b", CELLS[:10])
    compare(a, b, tmp_path / "out", console=console)
    assert len(pd.read_csv(tmp_path / "out" / "ratios.csv")) == 10
    assert "! left out: 14 cells that only a completed" in printed(console)


def test_differing_labs_machines_and_settings_forbid_a_comparison(tmp_path, console, undrawn):
    machine = manifest("x")["machine"]
    a = write_reduced(tmp_path / "a", CELLS[:4])
    other = {
        "lab": "sqlserver",
        "machine": machine | {"processors": 64, "system": "Linux 7"},
        "versions": {"python": "3.13.1"},
        "settings": {"lab": "sqlserver", "measure": 60.0, "seed": 7},
    }
    b = write_reduced(tmp_path / "b", CELLS[:4], **other)
    runs = read(a), read(b)
    assert forbidding(runs[0], runs[0]) == remarkable(runs[0], runs[0]) == []
    differences = [
        "The labs differ: a is embedded, b is sqlserver. Their numbers do not measure one another",
        "The machines differ (processors: 2 / 64)",
        "The settings differ (measure: 1.0 / 60.0)",
    ]
    assert forbidding(*runs) == differences
    assert remarkable(*runs) == [
        "The systems differ (system: absent / Linux 7)",
        "The software differ (python: 3.11.7 / 3.13.1)",
    ]
    with pytest.raises(ResultsError, match=r"processors: 2 / 64.*--despite-differences compares the runs all the same"):
        compare(a, b, console=console)
    compare(a, b, tmp_path / "out", despite_differences=True, console=console)
    assert set(differences) < set(undrawn)
    for words in (*differences, "python: 3.11.7 / 3.13.1"):
        assert words in " ".join(printed(console).split())


def test_a_little_more_memory_after_a_restart_is_no_other_machine(tmp_path):
    def run(name: str, mib: int, kb: int) -> Run:
        fingerprint = {"system": {"cpu_count": 8, "physical_memory_kb": kb}}
        return read(
            write_reduced(
                tmp_path / name,
                CELLS[:4],
                machine={"memory_mib": mib},
                instances=[{"name": "target", "lab_version": "2005", "fingerprint": fingerprint}],
            )
        )

    before = run("before", 24_104, 24_683_656)
    assert forbidding(before, run("restarted", 24_105, 24_684_092)) == []
    assert forbidding(before, run("other", 32_000, 24_500_000)) == ["The machines differ (memory_mib: 24104 / 32000)"]


def test_runs_whose_instances_had_other_processors_or_another_way_are_not_compared(tmp_path):
    def run(name: str, processors: dict[str, str], shared: dict[str, str], proxied: str = "") -> Run:
        placement = {"machine": "", "processors": processors, "shared": shared, "proxied": proxied}
        return read(write_reduced(tmp_path / name, CELLS[:4], placement={"2005": placement}))

    own = run("own", {"target": "0-3", "clients": "4-7"}, {"disk": "one"})
    assert forbidding(own, run("again", {"target": "0-3", "clients": "4-7"}, {"disk": "one"})) == []
    assert forbidding(own, run("shared", {}, {"processors": "all", "disk": "one"}, "Docker Desktop")) == [
        "The placements differ (2005 clients: 4-7 / absent; 2005 proxy: not used / used; "
        "2005 shared: disk / disk, processors; 2005 target: 0-3 / absent)"
    ]
    assert forbidding(own, read(write_reduced(tmp_path / "old", CELLS[:4]))) == []


@pytest.mark.parametrize("how", ["the same folder", "a copy"])
def test_a_run_is_not_compared_with_itself(tmp_path, console, how):
    a = write_reduced(tmp_path / "a", CELLS[:4])
    b = a if how == "the same folder" else shutil.copytree(a, tmp_path / "copy")
    with pytest.raises(ResultsError, match="are the same run: name two runs"):
        compare(a, b, console=console)


def test_runs_without_a_common_cell_are_refused(tmp_path, console):
    a = write_reduced(tmp_path / "a", all_cells(("2005",))[:4])
    b = write_reduced(tmp_path / "b", all_cells(("2022",))[4:8])
    with pytest.raises(ResultsError, match="have no completed cell in common, whatever the versions"):
        compare(a, b, console=console)
    assert not (tmp_path / "compare-a-b").exists()


@pytest.mark.usefixtures("unrendered")
def test_runs_without_a_common_version_are_compared_and_the_output_says_how(tmp_path, console):
    a = write_reduced(tmp_path / "a", quick_cells(("2022", "2025")), lab="sqlserver", shape="paper")
    b = write_reduced(tmp_path / "b", quick_cells(("2008",)), shape="paper")
    paths = compare(a, b, tmp_path / "out", despite_differences=True, console=console).files
    assert len(pd.read_csv(tmp_path / "out" / "ratios.csv")) == len(CELLS)
    assert {"gain.png", "ratio-map.png"} <= {path.name for path in paths}
    said = " ".join(printed(console).split())
    assert "The runs have no version in common: each cell of a is the mean of 2022 and 2025, of b 2008" in said
    assert "left out" not in said


def test_differing_security_forbids_a_comparison(tmp_path):
    runs = [
        read(write_reduced(tmp_path / name, CELLS[:4], settings={"dialog_security": secure, "cells": [name]}))
        for name, secure in (("a", True), ("b", False))
    ]
    assert forbidding(*runs) == ["The settings differ (dialog_security: True / False)"]


@pytest.mark.usefixtures("undrawn")
def test_a_model_compared_with_a_measurement_is_called_a_model(tmp_path, console):
    versions = {"python": "3.11.7"}
    a = write_reduced(tmp_path / "a", CELLS, versions=versions | {"odbc_driver": "microsoft: x"}, settings=SECURE)
    b = write_reduced(tmp_path / "b", CELLS, lab="simulated", versions=versions, settings={"hardware": "paper"})
    compare(a, b, tmp_path / "out", despite_differences=True, console=console)
    assert "b: b (simulated lab, a model, closed loop, 24 cells)" in printed(console)
    assert forbidding(read(a), read(b)) == [
        "The labs differ: a is embedded, b is simulated. Their numbers do not measure one another"
    ]
    assert remarkable(read(a), read(b)) == []


def test_differing_models_are_listed(tmp_path):
    def run(name, seed, hold_us):
        model = {"latch.hold_us": {"value": hold_us, "low": 2}, "latch.hand_over_us": {"value": 100, "low": 5}}
        return read(write_reduced(tmp_path / name, CELLS[:4], lab="simulated", seed=seed, model=model))

    runs = run("a", 1, 15), run("b", 2, 20)
    assert forbidding(*runs) == ["The models differ (latch.hold_us: 15 / 20)"]
    assert forbidding(runs[0], run("c", 1, 15)) == []
    assert remarkable(*runs) == ["The models' chances differ (seed: 1 / 2)"]


def test_a_changed_workload_is_what_a_comparison_may_be_about_and_another_one_is_not(tmp_path):
    def run(folder, name, digest):
        workload = {"name": name, "folder": str(tmp_path), "digests": {"a.sql": digest}, "variables": {"WorkMs": 1}}
        return read(write_reduced(tmp_path / folder, CELLS[:4], settings={"workload": workload}))

    before, after, other = run("a", "orders", "1"), run("b", "orders", "2"), run("c", "trades", "1")
    assert forbidding(before, after) == []
    assert remarkable(before, after) == ["The runs of the workload orders differ (digests.a.sql: 1 / 2)"]
    assert forbidding(before, other) == ["The workloads differ (name: orders / trades)"]
    earlier = read(write_reduced(tmp_path / "d", CELLS[:4]))  # of a harness that knew one workload
    assert forbidding(earlier, before) == ["The workloads differ (name: paper / orders)"]
    assert remarkable(earlier, read(write_reduced(tmp_path / "e", CELLS[:4]))) == []


def test_a_script_in_another_folder_is_no_difference(tmp_path):
    def run(name, *scripts):
        digests = {script: f"digest of {script.removeprefix('../paper/')}" for script in scripts}
        workload = {"name": name, "folder": str(tmp_path), "digests": digests, "target": {"scripts": scripts}}
        return read(write_reduced(tmp_path / name, CELLS[:4], settings={"workload": workload}))

    paper, mine = run("paper", "receive.sql"), run("mine", "../paper/receive.sql")
    assert remarkable(paper, mine) == []
    assert remarkable(paper, run("twice", "receive.sql", "more/receive.sql")) == [
        "The workloads paper and twice differ (digests.receive.sql: digest of receive.sql / digest of receive.sql, "
        "digest of more/receive.sql; target.scripts: ['receive.sql'] / ['receive.sql', 'receive.sql'])"
    ]

    damaged = {"workload": {"name": "paper", "target": {"scripts": None}}}
    [line] = remarkable(paper, read(write_reduced(tmp_path / "damaged", CELLS[:4], settings=damaged)))
    assert "target.scripts: ['receive.sql'] / None" in line


def test_a_key_that_an_older_manifest_lacks_has_its_default(tmp_path):
    def run(folder, **tables):
        workload = {"name": "orders", "folder": str(tmp_path), "digests": {}, **tables}
        return read(write_reduced(tmp_path / folder, CELLS[:4], settings={"workload": workload}))

    older, newer = (
        run("a", client={"procedure": "dbo.Submit"}, target={"activation_procedure": "dbo.Take"}),
        run(
            "b",
            client={"procedure": "dbo.Submit", "think_time": 0.0},
            target={"activation_procedure": "dbo.Take", "tables": "clustered"},
        ),
    )
    changed = run(
        "c", client={"procedure": "dbo.Submit"}, target={"activation_procedure": "dbo.Take"}, dialogs={"priority": 7}
    )
    assert remarkable(older, newer) == []
    assert remarkable(older, changed) == ["The runs of the workload orders differ (dialogs.priority: 5 / 7)"]
    model = read(write_reduced(tmp_path / "d", CELLS[:4], lab="simulated"))
    assert not [line for line in remarkable(model, older) if "workload" in line]


def test_differing_targets_of_the_same_version_are_listed(tmp_path):
    def run(name, cpus, build):
        fingerprint = {"server": {"product_version": build}, "system": {"cpu_count": cpus}}
        target = {"name": "target", "lab_version": "2022", "fingerprint": fingerprint}
        initiator = {"name": "initiator-1", "lab_version": "2022", "fingerprint": {"system": {"cpu_count": 99 + cpus}}}
        return read(write_reduced(tmp_path / name, CELLS[:4], lab="sqlserver", instances=[target, initiator]))

    runs = run("a", 8, "16.0.1"), run("b", 16, "16.0.2")
    assert forbidding(*runs) == ["The targets of version 2022 differ (cpu_count: 8 / 16)"]
    assert remarkable(*runs) == ["The targets of version 2022 differ (product_version: 16.0.1 / 16.0.2)"]


def test_how_targets_flush_their_logs_is_compared_where_both_runs_know_it(tmp_path):
    def run(name, **fingerprint):
        target = {"name": "target", "lab_version": "2022", "fingerprint": fingerprint}
        return read(write_reduced(tmp_path / name, CELLS[:4], lab="sqlserver", instances=[target]))

    older, unknown = run("a"), run("b", trace_flags=[], log_storage=None)
    known = run("c", trace_flags=[3979], log_storage={"writethrough": None, "filesystem": "xfs"})
    alike = run("e", trace_flags=[3979], log_storage={"writethrough": 1, "filesystem": "xfs"})
    other = run("d", trace_flags=[3979], log_storage={"writethrough": 0, "filesystem": "ext4"})
    assert remarkable(older, known) == remarkable(known, alike) == []
    assert remarkable(unknown, known) == ["The logs of the targets of version 2022 differ (trace_flags: [] / [3979])"]
    assert remarkable(known, other) == [
        "The logs of the targets of version 2022 differ (filesystem: xfs / ext4; writethrough: 1 / 0)"
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_extremes_of_many_cells_are_printed(tmp_path, console):
    cells = [cell for cell in all_cells() if cell.initiators == 1 and cell.payload_bytes == 100 and cell.threads < 50]
    compare(write_reduced(tmp_path / "a", cells), write_reduced(tmp_path / "b", cells), console=console)
    assert "12 lowest and 12 highest ratios of 40 cells" in printed(console)


@pytest.mark.usefixtures("undrawn")
def test_a_slowdown_that_the_runs_tell_is_reported(tmp_path, console):
    cells = CELLS[:4]
    a, b = (write_reduced(tmp_path / name, cells, blocks=4, factor=factor) for name, factor in (("a", 1), ("b", 0.7)))
    slower = compare(a, b, console=console).gate.slowdowns
    assert slower[0].startswith("all 4 cells together (0.70, ")
    assert {cell.id for cell in cells} < {words.split(" (")[0] for words in slower[1:]}
    assert compare(b, a, console=console).gate.slowdowns == []


@pytest.mark.usefixtures("unrendered")
def test_a_slowdown_ends_the_command_with_one(tmp_path, capsys):
    cells = CELLS[:2]
    a, b = (write_reduced(tmp_path / name, cells, blocks=3, factor=factor) for name, factor in (("a", 1), ("b", 0.7)))
    for arguments, code in (([b, a], 0), ([a, b], 1)):
        with pytest.raises(SystemExit) as ended:
            main(["compare", *map(str, arguments), "--fail-over", "5%", "--output", str(tmp_path / "out")])
        assert ended.value.code == code
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith("harness: b is slower than a by more than 5 %: all 2 cells together (0.70, ")
    )


@pytest.mark.parametrize("given", ["5", "0%", "100%", "-3%", "a lot"])
def test_a_percentage_that_is_none_is_an_error_of_one_line(given, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a", "b", f"--fail-over={given}"])
    assert ended.value.code == 2
    assert f"{given!r} is no percentage between 0 % and 100 %: write 5%" in capsys.readouterr().err


@pytest.mark.usefixtures("unrendered")
def test_a_comparison_in_which_no_cell_counts_says_why_beside_its_ratios(tmp_path, console):
    a, b = (write_reduced(tmp_path / name, CELLS[:2], blocks=3) for name in "ab")
    path = b / "reduced" / "cells.parquet"
    pd.read_parquet(path).assign(state="disturbed").to_parquet(path, index=False)
    compare(a, b, tmp_path / "out", console=console)
    named = ", ".join(cell.id for cell in CELLS[:2])
    assert (
        f"! No cell counts in both runs: 6 of 6 measurements of b were disturbed ({named}): measure again without what "
        "disturbed them (state_reason in the table cells)"
    ) in " ".join(printed(console).split())


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("choice, code", [([], 4), (["--pass-if-unknown"], 0)])
def test_where_nobody_can_tell_the_command_ends_with_four_or_passes(tmp_path, capsys, choice, code):
    a, b = (str(write_reduced(tmp_path / name, CELLS[:4], blocks=2)) for name in "ab")
    with pytest.raises(SystemExit) as ended:
        main(["compare", a, b, "--fail-over", "5%", *choice, "--output", str(tmp_path / "out")])
    assert ended.value.code == code
    sentence = "cannot tell whether b is slower than a by more than 5 %: the rates of 4 cells have no interval"
    assert sentence in "".join(capsys.readouterr())
