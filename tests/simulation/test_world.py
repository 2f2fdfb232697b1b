"""Time, crashes and seeds of a world."""

import time

import pytest

from harness.embedded.runtime.tasks import SECOND
from harness.lab import dialog_pool, link
from harness.lab.instances import InstanceDied
from harness.simulation import simulated_lab
from harness.simulation.parameters import read
from harness.simulation.simulated_lab import SimulatedInstance, SimulatedLab
from harness.simulation.world import World, derived_seed

PAPER = read("paper")


@pytest.fixture(scope="module")
def linked() -> SimulatedLab:
    lab = simulated_lab.open(PAPER, version="2008", initiators=1, seed=1)
    link.link(lab)
    return lab


def test_an_idle_hour_costs_almost_nothing(linked: SimulatedLab) -> None:
    clock, began_s = linked.world.clock, time.process_time()
    before_ns = clock.now_ns
    linked.clock.sleep(3600.0)
    assert clock.now_ns == before_ns + 3600 * SECOND
    assert time.process_time() - began_s < 2.0


def test_a_wait_shorter_than_the_clocks_resolution_ends() -> None:
    world = World(1, PAPER)
    world.sleep(1e-12)
    assert world.clock.now_ns == 1


def test_dialogs_are_built_and_warmed_up_in_virtual_time(linked: SimulatedLab) -> None:
    dialog_pool.build(linked, initiators=1, dialogs=15)
    with linked.initiators[0].connect() as connection:
        [every] = dialog_pool.used([connection], 1, 15)
        assert len(every) == 15
        assert dialog_pool.used([connection], 5, 3) == [every[4::5]]
        assert dialog_pool.used([connection], 2, 3) == [every[1:6:2]]


def test_a_crashed_instance_comes_back_with_what_was_on_disk() -> None:
    world = World(1, PAPER, is_recoverable=True)
    instance = SimulatedInstance.on(world.server("target", "2008"), "master")
    with instance.connect() as connection:
        connection.execute("CREATE TABLE dbo.t (i int); INSERT INTO dbo.t VALUES (1);")
    world.servers["target"].crash()
    with pytest.raises(InstanceDied, match="target is down"):
        instance.connect()
    world.servers["target"].start()
    with instance.connect() as connection:
        assert connection.execute("SELECT i FROM dbo.t;").fetchall() == [(1,)]


def test_an_instance_of_a_world_that_is_not_recoverable_does_not_start_again() -> None:
    world = World(1, PAPER)
    server = world.server("target", "2008")
    with SimulatedInstance.on(server, "master").connect() as connection:
        connection.execute("CREATE TABLE dbo.t (i int); INSERT INTO dbo.t VALUES (1);")
    assert server.store.flushes and not server.store.rows
    world.servers["target"].crash()
    with pytest.raises(AssertionError, match="not recoverable"):
        world.servers["target"].start()


def test_a_restarted_instance_does_not_repeat_its_entropy() -> None:
    def guids() -> list[str]:
        world = World(7, PAPER, is_recoverable=True)
        instance = SimulatedInstance.on(world.server("target", "2008"), "master")
        found = []
        for _ in range(2):
            with instance.connect() as connection:
                found.append(connection.execute("SELECT NEWID();").fetchone()[0])
            world.servers["target"].crash()
            world.servers["target"].start()
        return found

    first, second = guids()
    assert first != second
    assert guids() == [first, second]


def test_a_world_with_another_seed_has_other_entropy_in_every_part() -> None:
    def chances(*seeds: int) -> tuple[list[int], bytes, str]:
        world = World(0, PAPER)
        server = world.server("target", "2008")
        for seed in seeds:
            server.computer.log.duration_ns(100)  # draws ahead
            world.reseed(seed)
        log = [server.computer.log.duration_ns(100) for _ in range(3)]
        with SimulatedInstance.on(server, "master").connect() as connection:
            guid = connection.execute("SELECT NEWID();").fetchone()[0]
        return log, world.network.entropy.random_bytes(4), guid

    first = chances(1)
    assert chances(1) == first
    assert all(one != other for one, other in zip(first, chances(2), strict=True))


def test_reseeding_with_the_old_seed_repeats_no_identifier() -> None:
    world = World(1, PAPER)
    engine = world.server("target", "2008").engine
    before = {engine.entropy.random_bytes(16) for _ in range(50)}
    world.reseed(1)
    assert before.isdisjoint(engine.entropy.random_bytes(16) for _ in range(50))


def test_seeds_are_derived_from_all_names() -> None:
    assert derived_seed(1, "a", 2) == derived_seed(1, "a", 2)
    assert len({derived_seed(1, "a"), derived_seed(2, "a"), derived_seed(1, "b"), derived_seed(1, "a", "b")}) == 4
