"""Which processors instances and clients have, on machines of all kinds."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.lab import placement
from harness.lab.placement import Core, Machine, Placement, listed, parse


@pytest.mark.parametrize(
    "host, expected",
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.0.1.1", True), ("192.0.2.7", True)),
        *(("192.0.2.8", False), ("nobody.invalid", False)),
    ],
)
def test_a_host_is_this_machine_by_any_of_its_addresses(
    monkeypatch: pytest.MonkeyPatch, host: str, expected: bool
) -> None:
    own = [SimpleNamespace(address=address) for address in ("127.0.0.1", "::1", "192.0.2.7")]
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"lo": own[:2], "eth0": own[2:]})
    assert placement.is_here(host) == expected


def machine(cores: int, *, smt: int = 1, nodes: int = 1, efficient: int = 0) -> Machine:
    """Cores of `smt` processors each, numbered as Linux does: first one of each core, then the others."""
    fast = [
        Core(frozenset(range(number, cores * smt, cores)), number * nodes // cores, False) for number in range(cores)
    ]
    slow = [Core(frozenset({cores * smt + number}), 0, True) for number in range(efficient)]
    return Machine((*fast, *slow), frozenset().union(*(core.processors for core in (*fast, *slow))))


def planned(there: Machine, instances: int) -> list[str]:
    return [listed(processors) for processors in there.plan(instances)]


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8-11", "1,3,5"])
def test_a_list_of_processors_is_written_as_it_is_read(text):
    assert listed(parse(text)) == text


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1,,2", "0 - 3", "1;2"])
def test_what_is_no_list_of_processors_is_refused(text):
    with pytest.raises(ValueError, match="is no list of processors: write 0-3,8"):
        parse(text)


# -- the plan ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there, instances, expected",
    [
        (machine(8), 4, ["0", "1", "2", "3"]),
        (machine(8, smt=2), 4, ["0,8", "1,9", "2,10", "3,11"]),
        (machine(8, smt=2), 2, ["0-2,8-10", "3-5,11-13"]),
        (machine(16, smt=2, nodes=2), 4, ["0-2,16-18", "8-10,24-26", "3-5,19-21", "11-13,27-29"]),
        (machine(5), 4, ["0", "1", "2", "3"]),  # the clients have one core
        (machine(4, smt=2), 4, []),
        (machine(2), 2, []),
        (machine(0), 2, []),
        (machine(2, smt=2, efficient=8), 2, ["4-7", "8-11"]),  # alike, so not of the two fast ones
    ],
)
def test_instances_get_whole_cores_of_one_kind_and_node_and_the_clients_the_rest(there, instances, expected):
    assert planned(there, instances) == expected


@pytest.mark.parametrize("cores", range(3, 70))
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_no_plan_gives_a_core_twice_or_leaves_the_clients_none(cores, nodes):
    there = machine(cores, smt=2, nodes=nodes)
    for instances in (2, 3, 4, 17):
        found = there.plan(instances)
        assert (not found) == (cores <= instances)
        taken = frozenset().union(*found)
        assert sum(map(len, found)) == len(taken) == len(there.touched(taken)) < len(there.online)
        assert len({len(one) for one in found}) <= 1
        for one in found:
            assert len({core.node for core in there.cores if core.processors & one}) == 1


def write_topology(
    root: Path, processors: int, siblings: dict[int, str], nodes: dict[int, str], atom: str = ""
) -> None:
    for number in range(processors):
        topology = root / "system" / "cpu" / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings[number]}\n")
    (root / "system" / "cpu" / "online").write_text(f"0-{processors - 1}\n")
    for node, cpus in nodes.items():
        (root / "system" / "node" / f"node{node}").mkdir(parents=True)
        (root / "system" / "node" / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
    if atom:
        (root / "cpu_atom").mkdir()
        (root / "cpu_atom" / "cpus").write_text(f"{atom}\n")


def test_the_topology_is_read_as_the_kernel_shows_it(tmp_path, monkeypatch):
    siblings = {0: "0,2", 2: "0,2", 1: "1,3", 3: "1,3", 4: "4", 5: "5"}
    write_topology(tmp_path, 6, siblings, {0: "0,2,4", 1: "1,3,5"}, atom="4-5")
    monkeypatch.setattr(placement, "SYSTEM", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4})
    found = Machine.here()
    assert found.online == set(range(6))
    assert found.cores == (
        Core(frozenset({0, 2}), 0, False),
        Core(frozenset({1, 3}), 1, False),
        Core(frozenset({4}), 0, True),  # 5 is not this process's to use
    )
    assert str(found) == "3 cores of 1 or 2 processors, 2 NUMA nodes"


def test_a_machine_that_shows_no_topology_has_no_plan(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "SYSTEM", tmp_path)
    assert Machine.here().plan(2) == []


# -- what is shared ----------------------------------------------------------------------------------------------------


def of_containers(there: Machine | None, **cpusets: str) -> Placement:
    return placement.of_containers(there, cpusets, disk="/var/lib/docker")


def test_containers_with_cores_of_their_own_leave_the_rest_to_the_clients():
    found = of_containers(machine(8, smt=2), target="0-2,8-10", initiator1="3-5,11-13")
    assert found.clients == parse("6-7,14-15")
    assert set(found.shared) == {placement.DISK}
    assert str(found) == (
        "processors (8 cores of 2 processors, 1 NUMA node): target 0-2,8-10, initiator1 3-5,11-13, clients 6-7,14-15"
    )
    assert found.record["processors"] == {"target": "0-2,8-10", "initiator1": "3-5,11-13", "clients": "6-7,14-15"}


@pytest.mark.parametrize(
    "there, cpusets, why",
    [
        (machine(2), {"a": "", "b": ""}, "2 cores, 1 NUMA node are too few for 2 instances and their clients"),
        (machine(8), {"a": "0-1", "b": ""}, "not every container was started with processors of its own"),
        (machine(8), {"a": "0-2", "b": "2-4"}, "two instances have processors of the same core"),
        (machine(4, smt=2), {"a": "0", "b": "4"}, "two instances have processors of the same core"),
        (machine(4), {"a": "0-1", "b": "2-3"}, "the instances have all cores, which the clients share with them"),
        (None, {"a": "0", "b": "1"}, "Docker's containers run on another machine than the clients"),
    ],
)
def test_what_containers_share_is_said(there, cpusets, why):
    found = of_containers(there, **cpusets)
    assert found.shared[placement.PROCESSORS].startswith(why)
    assert str(found).startswith(f"processors: {why}")
    assert not found.clients


@pytest.mark.parametrize(
    "sides, together",
    [
        ([("A", "a.example"), ("B", "b.example")], ""),
        ([("A\\ONE", "10.0.0.1"), ("a\\TWO", "10.0.0.2"), ("B", "b")], "side 0, side 1 run on one machine"),
        ([("A", "a.example"), ("B", "A.example")], "side 0, side 1 run on one machine"),
        ([("A", "127.0.0.1"), ("B", "127.0.1.1")], "side 0, side 1 run on one machine"),
    ],
)
def test_servers_on_one_machine_share_it(sides, together):
    found = placement.of_servers((f"side {number}", host, name) for number, (name, host) in enumerate(sides))
    assert set(found.shared.values()) == ({together} if together else set())
    if not together:
        assert str(found) == "processors: each instance has a machine of its own"


# -- pinning -----------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_this_process_and_its_children_are_pinned_with_all_threads_and_freed_again():
    before = os.sched_getaffinity(0)
    one = min(before)
    release = threading.Event()
    waiting = threading.Thread(target=release.wait)
    waiting.start()
    try:
        words = [sys.executable, "-c", "import sys; print(); sys.stdin.read()"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline()
            there = [0, waiting.native_id, child.pid]
            with placement.pinned(frozenset({one})):
                assert [os.sched_getaffinity(each) for each in there] == [{one}] * 3
                with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as later:
                    assert psutil.Process(later.pid).cpu_affinity() == [one]
            assert [os.sched_getaffinity(each) for each in there] == [before] * 3
    finally:
        release.set()
        waiting.join()


def test_clients_without_processors_of_their_own_are_left_alone(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("pinned"))
    with placement.pinned(frozenset()):
        pass
