"""Space on disk and in files for the largest cell, and differences between clocks."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from harness.definitions import lab_kinds
from harness.definitions.lab_kinds import CONTAINERS, EMBEDDED, SERVERS, LabKind
from harness.definitions.matrix import Cell, all_cells
from harness.doctor import machine, space
from harness.doctor.facts import Facts, read_files
from harness.files import settings as settings_module
from harness.files.settings import Settings
from harness.lab import containers, instance_clock, link, placement
from harness.lab.instances import connections
from harness.lab.link import FileSizes
from harness.lab.placement import Placement
from harness.machine.clocks import ClockDifference
from harness.machine.places import PROJECT_FOLDER
from harness.run import run_folder
from tests.doctor.conftest import ills

TIMES = lab_kinds.times("matrix")["sqlserver"]
SETTINGS = Settings(lab="sqlserver", measure=30.0, settle=10.0)
GB = 1024**3
TARGET: Any = SimpleNamespace(name="target", database="SSBTarget", is_existing=False)
LARGEST = "i3-t50-r150-p8192-v2008"


def need(cell: str = LARGEST) -> space.Need:
    found = space.largest([Cell.parse(cell)], SETTINGS, is_target=True)
    assert found is not None
    return found


def side(*, data_free=0, log_free=0, disk=None, growth=8192, max_size=-1) -> Facts:
    """One data file and one log on a disk of their own."""
    facts = Facts(TARGET, "Target")
    facts.answers["files"] = [
        {"file_id": 1, "file_type": "ROWS", "size_bytes": 100 * GB, "used_bytes": 100 * GB - data_free},
        {"file_id": 2, "file_type": "LOG", "size_bytes": 100 * GB, "used_bytes": None},
    ]
    for row in facts.answers["files"]:
        row.update(growth=growth, max_size=max_size)
    facts.answers["log_space"] = [{"total_bytes": 100 * GB, "used_bytes": 100 * GB - log_free}]
    if disk is not None:
        facts.answers["volumes"] = [
            {"file_id": number, "volume": f"/{number}", "total_bytes": 200 * GB, "available_bytes": disk}
            for number in (1, 2)
        ]
    return facts


def test_the_largest_cell_decides_and_an_initiator_has_only_its_share():
    cells = all_cells()
    target = space.largest(cells, SETTINGS, is_target=True)
    third = space.largest(cells, SETTINGS, is_target=False, number=3)
    assert target is not None and third is not None
    assert target.cell.payload_bytes == third.cell.payload_bytes == 8192
    assert target.cell.initiators == third.cell.initiators == 3
    assert third.data < target.data / 2
    # 18,000 messages a second for 40 s, each of 8192 bytes in a queue, or then of 2000 in a table, and rows around them
    assert 5 * GB < target.data < 6 * GB
    assert space.largest([], SETTINGS, is_target=True) is None


def test_more_initiators_than_the_papers_need_as_much_each():
    three, six = (
        [
            space.largest([Cell("2022", number, 1, 5, 3000)], SETTINGS, is_target=is_target)
            for is_target in (True, False)
        ]
        for number in (3, 6)
    )
    assert six[0].data == pytest.approx(2 * three[0].data, rel=1e-6)
    assert six[1].data == three[1].data


def test_enough_space_inside_the_files_is_not_reported():
    facts = side(data_free=50 * GB, log_free=50 * GB, disk=0)
    findings = list(space.check_space(facts, need(), has_data_files=True))
    assert ills(findings) == []
    assert LARGEST in findings[0].text


@pytest.mark.parametrize(
    "given, expected, words",
    [
        ({"data_free": GB, "log_free": 50 * GB, "disk": GB}, "error", "of data at the paper's rate"),
        ({"data_free": 50 * GB, "log_free": GB, "disk": 0}, "error", "of log at the paper's rate"),
        ({"data_free": 10 * GB, "log_free": 50 * GB, "disk": GB}, "warning", "may need"),
        ({"data_free": GB, "log_free": 50 * GB, "disk": 99 * GB, "growth": 0}, "error", "of data at the paper's rate"),
        ({"data_free": GB, "log_free": 50 * GB, "disk": 99 * GB, "max_size": 101 * GB // 8192}, "error", "of data"),
    ],
)
def test_missing_space_is_found(given, expected, words):
    findings = list(space.check_space(side(**given), need(), has_data_files=True))
    assert ills(findings) == [(expected, "target", "space")]
    assert words in findings[0].text


def test_where_the_lab_has_no_files_of_its_own_the_remedy_is_the_disk():
    for has_files, words in ((True, "enlarge the data file of"), (False, "free some disk, or sweep smaller")):
        findings = space.check_space(side(data_free=0, log_free=0, disk=GB), need(), has_data_files=has_files)
        assert next(iter(findings)).remedy.startswith(words)


def test_files_that_would_grow_are_enlarged_by_a_run_but_not_those_of_an_application():
    facts = side(data_free=GB, log_free=50 * GB, disk=100 * GB)
    assert ills(space.check_space(facts, need(), has_data_files=True)) == []
    facts.instance = SimpleNamespace(name="target", database="Shop", is_existing=True)
    [finding, _] = space.check_space(facts, need(), has_data_files=True)
    assert finding.severity == "warning" and "would grow in the measured window" in finding.text


def enlarged(*sides: Facts, on_one_disk: bool = True) -> tuple[dict[str, FileSizes], list[str]]:
    told: list[str] = []
    needs = [need()] * len(sides)
    return space.file_sizes(sides, needs, on_one_disk=on_one_disk, tell=told.append), told


def test_files_get_the_size_that_the_largest_cell_needs_and_it_is_told():
    lacking = need().data - GB
    sizes, [told] = enlarged(side(data_free=GB, log_free=50 * GB, disk=50 * GB))
    assert sizes == {"target": FileSizes(100 * 1024 + -(-lacking // 1024**2), 100 * 1024)}
    assert told.startswith("files are enlarged for the largest cells: target data 104.") and LARGEST in told
    assert enlarged(side(data_free=50 * GB, log_free=50 * GB, disk=50 * GB)) == ({}, [])
    assert enlarged(side(data_free=GB, log_free=GB)) == ({}, []), "nobody knows what is free"


def test_files_stay_as_they_are_where_they_would_leave_less_than_a_fifth_of_what_is_free():
    small = side(data_free=GB, log_free=50 * GB, disk=10 * GB)
    other = side(data_free=GB, log_free=50 * GB, disk=10 * GB)
    other.instance = SimpleNamespace(name="initiator-1", database="SSBInitiator1", is_existing=False)
    assert set(enlarged(small, other, on_one_disk=False)[0]) == {"target", "initiator-1"}
    sizes, [told] = enlarged(small, other)
    assert sizes == {} and "files are not enlarged: the largest cells may need 9." in told and "10.0 GB is free" in told


def test_a_disk_that_all_share_has_room_for_all_or_the_run_ends():
    sides = [side(data_free=GB, log_free=50 * GB, disk=9 * GB) for _ in range(2)]
    [finding] = space.check_shared_disk(sides, [need(), need()])
    assert (finding.severity, finding.check) == ("error", "space")
    assert "9.3 GB more than the files have, and 9.0 GB is free" in finding.text
    assert not list(space.check_shared_disk(sides, [need(), None]))


def test_the_readme_names_the_disk_that_a_run_in_containers_needs():
    def disk_gb(matrix: str) -> int:
        settings = settings_module.create({"lab": "sqlserver", "matrix": matrix, **TIMES}, environment={})
        needs = space.needs_of(settings.matrix.cells(("2022",), initiators_max=3), settings, 4)
        files = sum(one.total for one in needs if one is not None)
        free = containers.own_disk_bytes(4) + files / space.TAKEN_SHARE_MAX  # so that a run enlarges the files
        return math.ceil(free / 1e10) * 10

    text = (PROJECT_FOLDER / "README.md").read_text()
    assert f"{disk_gb('quick')} GB of disk ({disk_gb('paper')} GB for all 528 cells)" in text


@pytest.mark.parametrize(
    "physical_gb, allowed_mb, expected", [(16, 2**31 - 1, None), (4, 2**31 - 1, "warning"), (16, 4096, "warning")]
)
def test_memory_that_is_too_small_for_the_data_of_a_cell_is_a_warning(physical_gb, allowed_mb, expected):
    facts = Facts(TARGET, "Target")
    facts.answers["edition"] = [{"physical_memory_kb": physical_gb * GB // 1024}]
    facts.answers["configuration"] = [{"name": "max server memory (MB)", "value_in_use": allowed_mb}]
    [finding] = space.check_memory(facts, need())
    assert ills([finding]) == ([(expected, "target", "memory")] if expected else [])
    assert f"may use {16 if expected is None else 4}.0 GB for 5." in finding.text and LARGEST in finding.text


@pytest.mark.process
def test_a_lab_enlarges_its_files_and_never_makes_them_smaller(lab):
    pages = "SELECT size FROM sys.database_files ORDER BY file_id;"
    with connections([lab.target]) as (connection,):
        link.enlarge_files(lab, {"target": FileSizes(5000, 100)})
        assert [row[0] for row in connection.execute(pages).fetchall()] == [5000 * 128, link.LOG_SIZE_MB * 128]


def test_unknown_space_is_reported():
    findings = list(space.check_space(side(data_free=GB), need(), has_data_files=True))
    assert ills(findings) == []
    assert "on disk unknown" in findings[0].text


@pytest.mark.process
def test_an_instance_on_this_machine_has_this_machines_clock(lab):
    with connections([lab.target]) as (connection,):
        measured = instance_clock.measure(connection)
    assert abs(measured.difference_ns) <= measured.uncertainty_ns + 2_000_000
    assert measured.uncertainty_ns > 0


@pytest.mark.parametrize(
    "difference_ms, expected", [(-40_000, "warning"), (3, None), (1_015, None), (60_000, "warning")]
)
def test_a_difference_of_clocks_beyond_its_uncertainty_is_a_warning(difference_ms, expected):
    measured = ClockDifference(difference_ms * 1_000_000, 17_000_000)
    findings = list(machine.check_clock(Facts(TARGET, "Target"), measured))
    assert ills(findings) == ([(expected, "target", "clock")] if expected else [])
    assert f"{difference_ms:+.2f} ms" in findings[0].text
    assert "17.00 ms" in findings[0].text


def test_a_way_to_an_initiator_that_decides_what_clients_send_is_a_warning():
    side = Facts(SimpleNamespace(name="initiator-1"), "Initiator1")
    assert list(machine.check_round_trip(side, ClockDifference(0, 0, 1_900_000))) == []
    [finding] = machine.check_round_trip(side, ClockDifference(0, 0, 40_000_000))
    assert ills([finding]) == [("warning", "initiator-1", "network")]
    assert "takes 40.0 ms: a client thread here makes at most 25 calls/s" in finding.text


def placed(kind: LabKind, where: Placement) -> Any:
    return SimpleNamespace(kind=kind, placement=where)


def test_what_instances_share_is_a_warning_with_what_it_costs_and_the_remedy():
    where = Placement(shared={"processors": "two instances have processors of the same core", "disk": "all in one"})
    found = list(machine.check_placement(placed(CONTAINERS, where)))
    assert ills(found) == [("warning", "lab", "processors"), ("warning", "lab", "disk")]
    assert found[0].text == (
        "two instances have processors of the same core: claims about processors, linear growth and the bottleneck are "
        "not measured"
    )
    assert "a core for each instance and one for the clients" in found[0].remedy
    assert not ills(machine.check_placement(placed(EMBEDDED, where)))


def test_separate_machines_are_no_warning():
    [found] = machine.check_placement(placed(SERVERS, Placement()))
    assert (found.severity, found.text) == ("information", "each instance has a machine of its own")


@pytest.mark.parametrize(("schedulers", "expected"), [(4, [("warning", "target", "schedulers")]), (8, [])])
def test_fewer_schedulers_than_the_papers_are_a_warning(schedulers: int, expected: list[tuple[str, str, str]]) -> None:
    facts = Facts(TARGET, "Target")
    facts.answers["edition"] = [{"scheduler_count": schedulers}]
    assert ills(machine.check_schedulers(facts)) == expected


@pytest.mark.parametrize(
    "governors, kind, expected",
    [
        (["powersave", "performance"], SERVERS, "warning"),
        (["powersave"], EMBEDDED, "information"),
        (["performance", "performance"], CONTAINERS, None),
        ([], CONTAINERS, None),  # most virtual machines have none
    ],
)
def test_processors_whose_speed_follows_the_load_are_found(tmp_path, monkeypatch, governors, kind, expected):
    monkeypatch.setattr(placement, "SYSTEM", tmp_path)
    for number, governor in enumerate(governors):
        folder = tmp_path / "system" / "cpu" / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
    found = list(machine.check_governor(placed(kind, Placement())))
    assert [one.severity for one in found] == [expected] * (expected is not None)
    assert not found or f"governed by {', '.join(sorted(governors))}:" in found[0].text
    assert run_folder.machine()["scaling_governor"] == ", ".join(sorted(set(governors)))


@pytest.mark.parametrize(
    "counted, schedulers, severity, ending",
    [
        (8, 8, "information", ""),
        (16, 8, "information", ": its processor time is in percent of 16"),
        (16, 16, "warning", ": its processor time is in percent of 16"),
    ],
)
def test_an_instance_that_counts_other_processors_than_it_has_is_told_which(counted, schedulers, severity, ending):
    facts = Facts(TARGET, "Target")
    facts.answers["edition"] = [{"cpu_count": counted, "scheduler_count": schedulers}]
    [found] = machine.check_processors(facts, Placement(processors={"target": "0-3,8-11", "clients": "4-7"}))
    assert (found.severity, found.text) == (
        severity,
        f"has 8 processors (0-3,8-11), counts {counted} and schedules on {schedulers}{ending}",
    )
    if severity == "warning":
        assert found.remedy == "ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = 0 TO 3, 8 TO 11;"
    assert not list(machine.check_processors(facts, Placement()))


def test_the_room_on_the_disk_of_the_data_folder_is_known(sides):
    for facts in sides:
        assert {row["file_id"] for row in facts.rows("volumes")} == {1, 2}
        assert all(0 < row["available_bytes"] <= row["total_bytes"] for row in facts.rows("volumes"))


def test_what_a_run_asks_before_it_enlarges_files_suffices(lab, sides):
    """Not all questions of the doctor, which asks them again afterwards."""
    with connections(lab.instances) as opened:
        files = [read_files(side.instance, side.local_name, opened[n]) for n, side in enumerate(sides)]
    assert enlarged(*files) == enlarged(*sides)
    assert [set(side.answers) for side in files] == [{"files", "log_space", "volumes"}] * len(sides)
