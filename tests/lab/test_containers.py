"""The sqlserver lab in containers, over a stand-in for Docker whose containers are embedded instances."""

import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from harness.definitions.lab_kinds import CONTAINERS
from harness.doctor import commits
from harness.doctor.facts import read
from harness.doctor.machine import check_placement
from harness.failures import MachineFailure, UsageFailure
from harness.lab import compose, containers, control_groups, dialog_pool, opening, placement, scripts
from harness.lab.compose import ComposeError
from harness.lab.instances import InstanceDied, Lab, connections
from harness.lab.log_storage import LogStorage
from harness.lab.opening import Topology, select_lab
from harness.observe.snapshots import fingerprint
from tests.lab.test_placement import write_topology
from tests.processes import command_line
from tests.stand_ins import docker_engine
from tests.stand_ins.docker_engine import StandIn
from tests.thorough import one_of_each

pytestmark = pytest.mark.process

IMAGES = [f"mcr.microsoft.com/mssql/server:{version}-latest" for version in containers.VERSIONS]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate checkout, so that .env is not the developer's; the licence terms are accepted."""
    root = tmp_path / "checkout"
    root.mkdir()
    shutil.copy(compose.ROOT / "docker-compose.yml", root)
    monkeypatch.setattr(compose, "ROOT", root)
    monkeypatch.delenv("MSSQL_SA_PASSWORD", raising=False)
    monkeypatch.setenv("ACCEPT_EULA", "Y")
    return root


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., StandIn]]:
    """Start an engine and put its command first on the path."""
    with ExitStack() as stack:

        def start(*faults: str, images: list[str] = IMAGES) -> StandIn:
            docker = stack.enter_context(docker_engine.running(*faults, images=images))
            for name, value in docker.environment.items():
                monkeypatch.setenv(name, value)
            return docker

        yield start


@pytest.fixture
def docker(start: Callable[..., StandIn]) -> StandIn:
    return start()


def opened(version: str = "2022", **options: Any) -> Any:
    return opening.open(Topology(CONTAINERS), version=version, **options)


def test_without_a_version_the_containers_that_run_decide(docker: StandIn) -> None:
    assert select_lab({"lab": "sqlserver"}).settings.server_versions == containers.SWEEP_VERSIONS
    containers.up("2019", 1, lambda text: None)
    selection = select_lab({"lab": "sqlserver"})
    assert selection.settings.server_versions == ("2019",)
    assert selection.first_line.startswith("lab: sqlserver (as selected; version 2019, whose containers run) - ")
    assert select_lab({"lab": "sqlserver", "server_versions": ("2022",)}).settings.server_versions == ("2022",)


def version_of(lab: Lab) -> list[str]:
    found = []
    for instance in lab.instances:
        with closing(instance.connect()) as connection:
            found.append(str(scripts.scalar(connection, "SELECT SERVERPROPERTY('ProductMajorVersion');")))
    return found


# -- a lab -------------------------------------------------------------------------------------------------------------


def test_a_lab_of_containers_carries_messages_and_leaves_nothing_behind(docker, tmp_path):
    printed: list[str] = []
    with opened(initiators=2, directory=tmp_path / "lab", tell=printed.append) as lab:
        assert (lab.kind, lab.version) == (CONTAINERS, "2022")
        assert [one.broker_address for one in lab.instances] == [
            "TCP://target:5114",
            "TCP://initiator1:5114",
            "TCP://initiator2:5114",
        ]
        assert version_of(lab) == ["16"] * 3
        dialog_pool.build(lab, initiators=2, dialogs=6)
        assert len(docker.containers()) == 3
        assert docker.volumes()
    assert docker.containers() == []
    assert docker.volumes() == []
    assert printed[0].startswith("image and containers of 3 instances need 8.0 GB of disk before any cell; ")
    assert printed[1] == "starting target, initiator1, initiator2"
    assert "3 instances are ready after" in printed[-4]
    told = "the processor time of target, initiator-1, initiator-2 is not compared with that of the containers"
    assert printed[-3].startswith(told)
    assert printed[-2] == str(lab.placement)
    assert printed[-1] == "removing initiator1, initiator2, target"
    logs = tmp_path / "lab" / "logs"
    assert "behaves like SQL Server 2022" in (logs / "target.log").read_text()


def test_tempdb_is_laid_out_and_the_administrator_connection_answers(docker):
    with opened() as lab, closing(lab.target.connect_admin()) as admin, closing(lab.target.connect()) as connection:
        assert scripts.scalar(admin, "SELECT 1;") == 1
        cores = scripts.scalar(connection, "SELECT cpu_count FROM sys.dm_os_sys_info;")
        counted = "SELECT COUNT(*) FROM tempdb.sys.database_files WHERE type = 0;"
        assert scripts.scalar(connection, counted) == cores
        wanted = "SELECT value_in_use FROM sys.configurations WHERE name = N'remote admin connections';"
        assert scripts.scalar(connection, wanted) == 1
        small = "SELECT COUNT(*) FROM tempdb.sys.database_files WHERE size < 1024;"
        assert scripts.scalar(connection, small) == 0


def test_containers_that_the_disk_cannot_hold_are_not_started(docker, monkeypatch):
    monkeypatch.setattr(compose.shutil, "disk_usage", lambda path: SimpleNamespace(free=3 * 1024**3))
    text = "image and containers of 2 instances need 6.5 GB of disk before any cell; 3.0 GB is free in /var/lib/docker"
    assert containers.machine_lines(2)[1] == text
    with pytest.raises(ComposeError, match=text), opened():
        pass
    assert not docker.volumes()


def test_no_command_line_log_or_request_contains_the_password(docker, root, tmp_path):
    directory = tmp_path / "lab"
    printed: list[str] = []
    with opened(directory=directory, tell=printed.append) as lab:
        assert lab.target.login is not None
        password = str(lab.target.login.password)
        assert password in (root / ".env").read_text()
        assert not [word for process in psutil.process_iter() for word in command_line(process) if password in word]
        assert password not in repr(lab)
    assert password not in json.dumps(docker.requests()) + "\n".join(printed)
    for path in [*directory.rglob("*"), *docker.folder.glob("*.log")]:
        assert path.is_dir() or password.encode() not in path.read_bytes(), path


def test_a_version_replaces_the_one_that_ran(docker):
    printed: list[str] = []
    containers.up("2019", 1, printed.append)
    assert printed[-3:] == containers.status()
    assert ["SQL Server 2019: running, healthy, 127.0.0.1," in line for line in printed[-3:]] == [True, True, False]
    assert printed[-1] == f"login: sa; its password is MSSQL_SA_PASSWORD in {compose.ROOT / '.env'}"
    printed.clear()
    with opened("2025", tell=printed.append) as lab:
        assert version_of(lab) == ["17", "17"]
        assert {one.version for one in compose.containers().values()} == {"2025"}
    assert printed[0] == "removing initiator1, target"
    assert docker.containers() == []


@pytest.mark.parametrize("version, level", one_of_each([("2022", 160), ("2019", 150), ("2025", 170)]))
def test_databases_have_the_same_options_on_every_version_whatever_those_of_model_are(docker, version, level):
    shown = (
        "SELECT recovery_model_desc, delayed_durability_desc, is_query_store_on, is_accelerated_database_recovery_on, "
        "compatibility_level FROM sys.databases WHERE name = N'SSBTarget';"
    )
    with opened(version) as lab, closing(lab.target.connect()) as connection:
        for option in (
            "RECOVERY FULL",
            "DELAYED_DURABILITY = FORCED",
            "QUERY_STORE = ON",
            "ACCELERATED_DATABASE_RECOVERY = ON",
            "COMPATIBILITY_LEVEL = 110",
        ):
            connection.execute(f"ALTER DATABASE SSBTarget SET {option};")
        assert tuple(connection.execute(shown).fetchone()) == ("FULL", "FORCED", True, True, 110)
        scripts.run(connection, "common/database.sql", {"Database": "SSBTarget"})
        assert tuple(connection.execute(shown).fetchone()) == ("SIMPLE", "DISABLED", False, False, level)


# -- the way to the servers ---------------------------------------------------------------------------------------------


def test_the_lab_connects_to_the_containers_own_addresses_and_people_to_published_ports(docker):
    with opened() as lab:
        assert [(one.port, one.admin_port) for one in lab.instances] == [(1433, 1434)] * 2
        assert len({one.host for one in lab.instances} - {"127.0.0.1"}) == 2
        assert version_of(lab) == ["16", "16"]
        lab.target.connect_admin().close()
        port = os.environ["MSSQL_TARGET_PORT"]
        assert f"target SQL Server 2022: running, healthy, 127.0.0.1,{port}" in containers.status()
        assert lab.placement.proxied == ""


@pytest.mark.parametrize(
    "fault, why",
    one_of_each(
        [
            ("desktop", "their network is not one of this machine, as with Docker Desktop"),
            ("rootless", "Docker runs rootless"),
            ("firewall", r"127\.\d+\.\d+\.250:1433: nothing listens there: start the server, or check host and port"),
        ]
    ),
)
def test_where_this_host_does_not_reach_containers_the_published_ports_are_used_and_this_is_said(start, fault, why):
    start(fault)
    with opened() as lab:
        assert {one.host for one in lab.instances} == {"127.0.0.1"}
        assert lab.target.port == int(os.environ["MSSQL_TARGET_PORT"])
        assert version_of(lab) == ["16", "16"]
        assert re.fullmatch(why, lab.placement.proxied)
        [found] = [one for one in check_placement(lab) if one.check == "proxy"]
        assert found.severity == "warning" and found.text.endswith(lab.placement.proxied)


# -- containers that run before and after ------------------------------------------------------------------------------


def test_containers_that_ran_before_are_emptied_used_and_left_running(docker):
    printed: list[str] = []
    containers.up("2022", 1, printed.append)
    before = {process.pid for process in docker.containers()}
    for initiators, others in ((1, 0), (2, 1)):
        with opened(initiators=initiators) as lab:
            now = {process.pid for process in docker.containers()}
            assert now > before if others else now == before
            with closing(lab.initiators[0].connect()) as connection:
                assert scripts.scalar(connection, "SELECT COUNT(*) FROM sys.conversation_endpoints;") == 0
            dialog_pool.build(lab, initiators=initiators, dialogs=2)
        assert {process.pid for process in docker.containers()} == before
    assert not [name for name in docker.volumes() if "initiator2" in name]
    containers.down(printed.append)
    assert printed[-1] == "removed initiator1, target"
    assert docker.containers() == []
    containers.down(printed.append)
    assert printed[-1] == "there were no containers to remove"
    assert containers.status() == ["no containers run: start them with harness lab up"]


def test_the_lab_has_as_many_initiators_as_the_variable_says(docker, monkeypatch, tmp_path):
    lab = Topology(CONTAINERS)
    with monkeypatch.context() as on_large:
        machine_of(36, tmp_path, on_large)
        assert (lab.initiators_max, lab.initiators_usual) == (16, 3)
    monkeypatch.setenv("MSSQL_INITIATORS", "5")
    assert (lab.initiators_max, lab.initiators_usual) == (5, 5)
    printed: list[str] = []
    containers.up("2022", 5, printed.append)
    names = ["target", *(f"initiator{number}" for number in range(1, 6))]
    assert [line.split(" SQL Server 2022: running, healthy, 127.0.0.1,")[0] for line in printed[-7:-1]] == names
    assert printed[1] == f"starting {', '.join(names)}"
    assert {f"service-broker-harness_{name}-data" for name in names} <= set(docker.volumes())
    with opened(initiators=5) as there:
        assert there.initiators[4].broker_address == "TCP://initiator5:5114"
        dialog_pool.build(there, initiators=5, dialogs=1)
    containers.down(print)


@pytest.mark.parametrize("number", ["0", "17", "five"])
def test_a_number_of_initiators_that_no_lab_has_is_refused(monkeypatch, number):
    monkeypatch.setenv("MSSQL_INITIATORS", number)
    text = f"MSSQL_INITIATORS in the environment is '{number}': write a number from 1 to 16"
    with pytest.raises(MachineFailure, match=text):
        assert Topology(CONTAINERS).initiators_max


def test_more_instances_than_the_machine_has_memory_for_are_refused_before_anything_is_removed(start, monkeypatch):
    docker = start("memory:8")
    containers.up("2022", 1, print)
    text = (
        r"6 instances of SQL Server take 14,400 MB of memory, and Docker has 8,192 MB: ask for at most 2 initiators "
        r"\(MSSQL_INITIATORS=2\), or lower MSSQL_MEMORY_LIMIT_MB \(2000 or more\)$"
    )
    with pytest.raises(MachineFailure, match=text):
        containers.up("2025", 5, print)
    assert len(docker.containers()) == 2
    monkeypatch.setenv("MSSQL_MEMORY_LIMIT_MB", "2000")
    containers.up("2022", 3, print)
    assert len(docker.containers()) == 4
    monkeypatch.setenv("MSSQL_MEMORY_LIMIT_MB", "2g")
    with pytest.raises(MachineFailure, match="MSSQL_MEMORY_LIMIT_MB in the environment is '2g': write a number"):
        containers.up("2022", 3, print)


def machine_of(cores: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_topology(folder / "system", cores, {number: str(number) for number in range(cores)}, {0: f"0-{cores - 1}"})
    monkeypatch.setattr(placement, "SYSTEM", folder / "system")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))


@pytest.mark.parametrize(
    ("cores", "three", "pair", "usual"), [(4, 1, 4, 1), (16, 3, 16, 1), (20, 4, 9, 1), (36, 8, 17, 3)]
)
def test_small_machines_have_one_initiator_whose_schedulers_are_as_many_as_the_papers(  # noqa: PLR0917
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, three: int, pair: int, usual: int
) -> None:
    machine_of(cores, tmp_path, monkeypatch)
    assert (containers.processors_each(4), containers.processors_each(2)) == (three, pair)
    few = ", and the paper's had 8: gain, contention and threads will not be measured" * (pair < 8)
    assert containers.machine_lines(2)[0] == f"processors: {pair} for each of 2 instances{few}"
    assert Topology(CONTAINERS).initiators_usual == usual
    monkeypatch.setenv("MSSQL_INITIATORS", "5")
    assert Topology(CONTAINERS).initiators_usual == 5


# -- processors --------------------------------------------------------------------------------------------------------


@pytest.fixture
def large(start, tmp_path, monkeypatch) -> Iterator[list[tuple[int, str]]]:
    """A machine of twenty cores with Docker on it; yields who was pinned to which processors."""
    before = os.sched_getaffinity(0)
    machine_of(20, tmp_path, monkeypatch)
    start("processors:20")
    pinned: list[tuple[int, str]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda who, where: pinned.append((who, placement.listed(where))))
    yield pinned
    monkeypatch.undo()
    assert os.sched_getaffinity(0) == before


def test_each_container_and_the_clients_have_processors_of_their_own(large):
    printed: list[str] = []
    with opened(tell=printed.append) as lab:
        assert lab.placement.processors == {"target": "0-8", "initiator-1": "9-17", "clients": "18-19"}
        assert (os.getpid(), "18-19") in large
        assert {where for _, where in large} == {"18-19"}
    assert "processors (20 cores, 1 NUMA node): target 0-8, initiator-1 9-17, clients 18-19" in printed
    assert (os.getpid(), "0-19") in large


def test_containers_keep_the_processors_with_which_they_were_started(large):
    printed: list[str] = []
    containers.up("2022", 1, printed.append)
    assert "processors (20 cores, 1 NUMA node): target 0-8, initiator-1 9-17, clients 18-19" in printed
    with opened(initiators=3) as lab:
        assert lab.placement.processors == {
            "target": "0-8",
            "initiator-1": "9-17",
            "initiator-2": "8-11",
            "initiator-3": "12-15",
        }
        assert lab.placement.shared["processors"] == "two instances have processors of the same core"
    assert large == []


def test_the_user_may_name_the_processors(large, root):
    (root / ".env").write_text("MSSQL_TARGET_CPUSET=0-3\nMSSQL_INITIATOR1_CPUSET=6,7\n")
    with opened() as lab:
        assert lab.placement.processors == {"target": "0-3", "initiator-1": "6,7", "clients": "4-5,8-19"}


@pytest.mark.parametrize(
    "cpuset, text",
    [
        (
            "4-29",
            r"MSSQL_TARGET_CPUSET in the environment is 4-29, and Docker's machine has the processors 0-19: "
            r"leave out 20-29$",
        ),
        ("four", r"MSSQL_TARGET_CPUSET in the environment: 'four' is no list of processors: write 0-3,8$"),
    ],
)
def test_processors_that_the_machine_lacks_are_refused_before_anything_is_removed(large, monkeypatch, cpuset, text):
    containers.up("2022", 1, print)
    monkeypatch.setenv("MSSQL_TARGET_CPUSET", cpuset)
    with pytest.raises(MachineFailure, match=text), opened("2025"):
        pytest.fail("the lab opened")
    assert {one.version for one in compose.containers().values()} == {"2022"}


def test_the_kernel_counts_the_containers_processor_time(docker, tmp_path, monkeypatch):
    containers.up("2022", 1, print)
    monkeypatch.setattr(control_groups, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(control_groups, "GROUPS", tmp_path / "cgroup")
    for one in compose.inspected(list(compose.containers().values())):
        for path, text in (
            (tmp_path / "proc" / str(one.process) / "cgroup", f"0::/docker/{one.id}\n"),
            (tmp_path / "cgroup" / "docker" / one.id / "cpu.stat", "usage_usec 9000000\n"),
        ):
            path.parent.mkdir(parents=True)
            path.write_text(text)
    printed: list[str] = []
    with opened(tell=printed.append) as lab:
        groups = [instance.control_group for instance in lab.instances]
        assert [group and group.processor_time_ms() for group in groups] == [9000, 9000]
        assert len(set(groups)) == 2
    assert not any("control groups" in line for line in printed)
    containers.down(print)


def test_how_a_container_flushes_its_log_is_read_without_the_rest_of_its_settings(start, monkeypatch):
    docker = start("kernel:6.1.0")
    printed: list[str] = []
    run_in = compose.run_in

    def noted(*words: str) -> str:
        printed.append(run_in(*words))
        return printed[-1]

    monkeypatch.setattr(compose, "run_in", noted)
    with opened(initiators=1) as lab:
        volume = docker.folder / "volumes" / f"{compose.PROJECT}_target-data"
        (volume / "mssql.conf").write_text(
            "[network]\nwritethrough = 7\ntlskey = S3cr3t\n[control]\n alternatewritethrough = 0\nother = S3cr3t\n"
        )
        kept = {"writethrough": None, "alternatewritethrough": 0, "filesystem": "xfs", "mount_options": "rw,noatime"}
        with connections([lab.target]) as (connection,):
            assert fingerprint(connection, lab.target.log_storage)["log_storage"] == kept
            facts = read(lab.target, "Target", connection)
        [finding] = commits.check_flushing(facts)
        assert (finding.severity, finding.check) == ("warning", "commits")
        assert "writethrough 1 by default, alternatewritethrough 0, trace flag 3979 off, xfs rw,noatime" in finding.text
        assert len(printed) == 1 and "S3cr3t" not in printed[0]
        assert LogStorage("nobody", (6, 1)).flushing is None


def test_processors_of_another_machine_are_not_dealt_out(start):
    start("processors:64")
    with opened() as lab:
        assert lab.placement.shared["processors"].startswith(
            "Docker's containers run on another machine than the clients"
        )
        assert not lab.placement.processors


def test_a_version_that_has_no_image_is_refused(docker):
    with pytest.raises(UsageFailure, match="no container runs SQL Server '2008': choose one of 2017, 2019, 2022, 2025"):
        containers.up("2008", 1, print)


# -- failures ----------------------------------------------------------------------------------------------------------


def fails(docker: StandIn, text: str, **options: Any) -> None:
    """The lab does not open, reports why in one line, and leaves nothing."""
    with pytest.raises(MachineFailure, match=text) as caught, opened(**options):
        pytest.fail("the lab opened")
    assert "\n" not in str(caught.value)
    assert docker.containers() == []
    assert docker.volumes() == []


@pytest.mark.parametrize(
    "values, text",
    [
        ({"PATH": "/nowhere"}, "docker is not installed"),
        ({"DOCKER_STAND_IN": "/nowhere"}, "the Docker engine does not answer: start Docker Desktop"),
        ({"DOCKER_STAND_IN_FAULT": "no compose"}, "no Compose plugin"),
        ({"ACCEPT_EULA": ""}, "licence terms .* not accepted.*set ACCEPT_EULA=Y"),
        ({"MSSQL_SA_PASSWORD": "weak"}, "MSSQL_SA_PASSWORD in the environment is too weak"),
    ],
)
def test_a_missing_prerequisite_is_named(docker, monkeypatch, values, text):
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    fails(docker, text)


def test_an_image_that_cannot_be_pulled_is_named(start):
    printed: list[str] = []
    docker = start("pull", images=[])
    fails(
        docker,
        "the image mcr.microsoft.com/mssql/server:2022-latest cannot be pulled: .*no such host",
        tell=printed.append,
    )
    assert "pulling mcr.microsoft.com/mssql/server:2022-latest (once)" in printed


def test_a_container_that_ends_at_once_is_named_with_the_last_line_of_its_log(start):
    docker = start("exit:initiator1")
    fails(docker, "container initiator1 ended with exit code 1; last line of its log: .*a fatal error")


def test_a_server_that_does_not_come_up_is_given_up(start, monkeypatch):
    monkeypatch.setattr(containers, "_READY_TIMEOUT_S", 1.0)
    fails(start("slow:target"), r"target was not ready after 1 s \(target \(127.0.0.1:\d+\): ")


def test_a_port_in_use_is_named(docker):
    port = int(os.environ["MSSQL_INITIATOR1_PORT"])
    with socket.create_server(("127.0.0.1", port)):
        fails(docker, f"port {port} on 127.0.0.1 is in use: stop what listens there, or set another in .env")


def test_ctrl_c_while_servers_start_removes_them(start):
    docker = start("slow:target")

    def watch() -> None:
        if sum("ps" in words for words in docker.requests()) > 1:  # the second look comes while it waits
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), opened(watch=watch):
        pytest.fail("the lab opened")
    assert docker.containers() == []


def test_containers_created_with_another_password_are_reported(docker, monkeypatch):
    containers.up("2022", 1, print)
    monkeypatch.setattr(containers, "_REFUSED_S", 0.0)
    monkeypatch.setenv("MSSQL_SA_PASSWORD", "Another0nce")
    with (
        pytest.raises(MachineFailure, match=r"target was created with another password than .* harness lab down"),
        opened(),
    ):
        pytest.fail("the lab opened")
    assert len(docker.containers()) == 2


def test_a_server_that_starts_is_not_believed_that_the_password_is_wrong(docker, monkeypatch):
    containers.up("2022", 1, print)
    monkeypatch.setenv("MSSQL_SA_PASSWORD", "Another0nce")
    logged = iter(["Starting up database 'master'.", "Starting up database 'msdb'."])
    monkeypatch.setattr(compose, "log", lambda service, tail="all": next(logged, "Recovery is complete."))
    with pytest.raises(MachineFailure, match="target was created with another password"), opened():
        pytest.fail("the lab opened")
    assert list(logged) == []


def test_sql_server_2017_on_a_new_kernel_is_warned_of(start):
    start("kernel:6.12.48-amd64")
    told: list[str] = []
    containers.up("2017", 1, told.append)
    [line] = [line for line in told if "Linux" in line]
    assert line == (
        "SQL Server 2017 in a container is known to end at its start on Linux 6.7 and later, and Docker runs on 6.12: "
        "if it does, choose another version"
    )
    told.clear()
    containers.up("2022", 1, told.append)
    assert not [line for line in told if "Linux" in line]


def test_a_container_that_dies_in_the_lab_is_named_with_the_last_line_of_its_log(docker):
    with opened() as lab:
        lab.check()
        [target] = [one for one in docker.containers() if one.name() == "target"]
        target.kill()
        assert isinstance(lab.target.process, containers._Watched)
        psutil.wait_procs([psutil.Process(lab.target.process._wait.pid)], timeout=120)
        with pytest.raises(InstanceDied, match=r"container target ended with exit code 137 .*memory") as caught:
            lab.check()
        assert "last line of its log: " in str(caught.value)
        with pytest.raises(InstanceDied):
            lab.target.connect()
    assert docker.containers() == []
