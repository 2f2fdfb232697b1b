"""A store on a disk that fails, against a model: what was confirmed is there, what was refused is not, and the fate of
the rest is whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock, VirtualDriver
from harness.embedded.store import file_store
from harness.embedded.store.file_store import FileStore
from harness.embedded.store.row_file import DATA, MARK, DamagedStore, checked
from harness.simulation.dice import Dice
from harness.simulation.faulty_disk import Damage, DiskFault, FaultyDisk
from harness.simulation.world import VirtualBackground
from tests.examples import share

GROWN_BYTES = 2000  # a store with more than this writes its rows anew: here every few commits

commits = st.tuples(
    st.just("commit"), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900)), min_size=1, max_size=4)
)
steps = st.one_of(
    commits,
    st.tuples(st.just("fault"), st.sampled_from([fault for fault in DiskFault if fault is not DiskFault.LOST_WRITE])),
    st.tuples(st.just("full"), st.booleans()),
    st.tuples(st.just("restart"), st.booleans()),
)


class Machine:
    """A store, the rows that it must have, and those that it may have instead."""

    def __init__(self, seed):
        self.disk = FaultyDisk(Dice(SeededEntropy(seed)))
        self.driver = VirtualDriver(VirtualClock())
        self.count = 0
        self.rows = {}
        self.perhaps = None  # as after the one commit that nobody knows of
        self.start()

    def start(self):
        self.is_lost = False
        self.scheduler = self.driver.scheduler()
        while True:
            try:
                self.store = FileStore(
                    self.disk,
                    scheduler=self.scheduler,
                    background=VirtualBackground(self.scheduler, lambda size_bytes: 1),
                    lost=lambda error: setattr(self, "is_lost", True),
                    identity=bytes(16),
                    may_be_new=not self.rows,
                )
                break
            except OSError:
                self.disk.fault, self.disk.is_full = None, False  # a start that fails; the next one comes
        left = {key: value for _, key, value in self.store.load()}
        assert left in (self.rows, self.rows if self.perhaps is None else self.perhaps)
        self.rows, self.perhaps = left, None

    def restart(self, with_power):
        self.driver.forget(self.scheduler)
        if not with_power:
            self.disk.lose_power()
        self.start()

    def commit(self, pairs):
        self.count += 1
        rows = self.rows | {key: (self.count, bytes(size)) if size else None for key, size in pairs}
        rows = {key: row for key, row in rows.items() if row is not None}
        flush = self.store.submit([("t", key, rows.get(key)) for key, _ in pairs])
        self.driver.run_for(1)
        if self.is_lost:
            self.perhaps = rows
            self.restart(with_power=True)
        elif flush.error is None:
            assert flush.is_done
            self.rows = rows


@settings(max_examples=share(150), deadline=None)
@given(st.integers(0, 10_000), st.lists(steps, max_size=60))
def test_a_store_on_a_failing_disk_keeps_what_it_confirmed_and_nothing_that_it_refused(seed, plan):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_store, "GROWN_BYTES", GROWN_BYTES)
        machine = Machine(seed)
        for step, argument in plan:
            match step:
                case "commit":
                    machine.commit(argument)
                case "fault":
                    machine.disk.fault = argument
                case "full":
                    machine.disk.is_full = argument
                case "restart":
                    machine.restart(argument)
        machine.restart(with_power=True)
        machine.restart(with_power=False)


def stored(seed, commits_count):
    """A store with some commits behind its rows, after its process was killed."""
    machine = Machine(seed)
    for number in range(commits_count):
        machine.commit([(number % 6, 10 * number + 1)])
        if number == commits_count // 2:
            machine.restart(with_power=True)
    return machine


@settings(max_examples=share(150), deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([DATA, MARK]),
    st.sampled_from(["flip", "zeros", "cut", "delete"]),
    st.data(),
)
def test_damage_is_named_or_harmless_and_nothing_wrong_is_served(seed, name, damage, data):
    machine = stored(seed, 12)
    content = bytearray(machine.disk.contents()[name])
    at = data.draw(st.integers(0, len(content) - 1))
    match damage:
        case "flip":
            machine.disk.damage(name, Damage.FLIPPED_BIT)
        case "zeros":
            content[at : at + 16] = bytes(len(content[at : at + 16]))
            machine.disk.restore({name: bytes(content)})
        case "cut":
            machine.disk.damage(name, Damage.CUT)
        case "delete":
            machine.disk.remove(name)
    try:
        machine.restart(with_power=True)  # looks whether the rows are as they were
    except DamagedStore as error:
        assert name in str(error)


def test_a_write_that_the_disk_confirmed_and_lost_is_named():
    machine = stored(1, 12)
    machine.disk.fault = DiskFault.LOST_WRITE
    machine.commit([(1, 100)])
    machine.disk.open(MARK).sync()  # as the operating system does after a while
    with pytest.raises(DamagedStore, match="is missing or damaged"):
        machine.restart(with_power=False)


def test_damage_that_later_commits_follow_is_named_with_a_mark_of_long_ago():
    machine = stored(1, 6)
    machine.restart(with_power=True)
    old_mark = machine.disk.contents()[MARK]
    begin = len(machine.disk.contents()[DATA])
    for size in (3, 300, 5):
        machine.commit([(1, size)])
    content = machine.disk.contents()[DATA]
    machine.commit([(1, 7)])
    for at in range(begin, len(content), 7):
        damaged = bytearray(machine.disk.contents()[DATA])
        damaged[at] ^= 0x10
        disk = FaultyDisk(Dice(SeededEntropy(1)))
        disk.restore({DATA: bytes(damaged), MARK: old_mark})
        with pytest.raises(DamagedStore, match="later ones follow"):
            checked(disk)


def test_two_torn_commits_in_the_same_place_never_make_a_whole_one():
    machine = stored(1, 6)
    machine.restart(with_power=True)  # its rows are written anew, and no commit is behind them
    begin = len(machine.disk.contents()[DATA])

    def left_by_a_commit(value):
        file, _ = checked(machine.disk)
        file.append([("t", msgpack.encode(key), msgpack.encode([value, bytes(280 * 1024)])) for key in (1, 2)])
        return machine.disk.contents()[DATA]

    first = left_by_a_commit(1)
    half = begin + (len(first) - begin) // 2  # where the first of two frames of equal length ends
    machine.disk.restore({DATA: first[:begin] + bytes(512) + first[begin + 512 :]})  # its second frame is whole
    machine.restart(with_power=True)  # looks whether the rows are as they were
    machine.disk.lose_power()
    rest = machine.disk.contents()[DATA][half:]
    machine.disk.restore({DATA: left_by_a_commit(2)[:half] + rest})
    machine.restart(with_power=True)


def test_an_earlier_commit_behind_the_last_one_is_no_new_one():
    machine = stored(1, 6)
    begin = len(machine.disk.contents()[DATA])
    machine.commit([(1, 3)])
    end = len(machine.disk.contents()[DATA])
    machine.commit([(1, 300)])
    content = machine.disk.contents()[DATA]
    machine.disk.restore({DATA: content + content[begin:end]})
    machine.restart(with_power=True)  # looks whether the rows are as they were
