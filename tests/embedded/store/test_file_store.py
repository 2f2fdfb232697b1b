"""Rows on disk after a commit, after kill -9 and after a full disk."""

import asyncio
import shutil
import subprocess
import sys
from functools import partial

import pytest

from harness.embedded.broker import ddl_databases, ddl_services
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.engine import Engine
from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock, SystemEntropy
from harness.embedded.runtime.virtual import SeededEntropy
from harness.embedded.store import file_store
from harness.embedded.store.disk import FolderDisk
from harness.embedded.store.file_store import FileStore, Threads
from harness.embedded.store.group_commit import StoreFull
from harness.embedded.store.row_file import DATA, MARK
from harness.simulation.dice import Dice
from harness.simulation.faulty_disk import FaultyDisk

pytestmark = pytest.mark.process

TIME_LIMIT_S = 20


class RealTime:
    """A scheduler in an asyncio loop, for one test."""

    def __init__(self, loop):
        self.loop = loop
        self.errors = []
        self.scheduler = RealTimeDriver(SystemClock(), lambda task, error: self.errors.append(error), loop).scheduler

    def store(self, path, **options):
        path.mkdir(exist_ok=True)
        background = Threads(self.loop.call_soon_threadsafe)
        options = {"lost": self.errors.append, "disk": FolderDisk(path), "identity": bytes(16)} | options
        return FileStore(scheduler=self.scheduler, background=background, **options)

    async def run(self, generator):
        future = self.loop.create_future()

        def body():
            try:
                future.set_result((yield from generator))
            except Exception as error:
                future.set_exception(error)

        self.scheduler.spawn(body(), "test")
        return await asyncio.wait_for(future, TIME_LIMIT_S)


def in_real_time(test):
    """Run an async test(time, path) in its own loop."""

    def run(tmp_path):
        async def body():
            time = RealTime(asyncio.get_running_loop())
            await test(time, tmp_path / "data")
            assert not time.errors

        asyncio.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def contents(time, path):
    store = time.store(path)
    try:
        return {(table, key): row for table, key, row in store.load()}
    finally:
        store.close()


def copy(path, to):
    """Copy the files that a crash at this moment would leave; a loss of power can leave an older mark."""
    to.mkdir()
    for name in (MARK, DATA):
        shutil.copy(path / name, to / name)
    return to


@in_real_time
async def test_rows_are_loaded_as_they_were_stored(time, path):
    store = time.store(path)
    rows = {
        ("t", 1): (None, True, 1.5, "text", b"\x00bytes", -(2**63)),
        ("t", "name"): ((1, ("nested",)),),
        ("t", b"\x01"): (),
        ("u", ("a", 1)): ("x" * 100_000,),
    }
    await time.run(store.submit([(table, key, row) for (table, key), row in rows.items()]).wait())
    assert {(table, key): row for table, key, row in store.load()} == rows
    await time.run(store.submit([("t", 1, None), ("t", "name", ("other",)), ("t", "gone", None)]).wait())
    store.close()
    del rows["t", 1]
    rows["t", "name"] = ("other",)
    assert contents(time, path) == rows


@in_real_time
async def test_many_commits_share_few_flushes(time, path):
    store = time.store(path)

    def session(number):
        for count in range(20):
            yield from store.submit([("t", (number, count), (count,))]).wait()

    await asyncio.gather(*(time.run(session(number)) for number in range(25)))
    assert store.commits == 500 and store.flushes <= 60
    assert len(list(store.load())) == 500
    store.close()


@in_real_time
async def test_writes_are_counted_by_owner(time, path):
    store = time.store(path, owner_of=lambda table: int(table.rpartition(".")[2]))
    await time.run(store.submit([("a.5", 1, ("x" * 100,)), ("b.5", 1, ("y" * 100,)), ("a.6", 1, (1,))]).wait())
    await time.run(store.submit([("a.5", 1, None)]).wait())
    assert {owner: account.writes for owner, account in store.accounts.items()} == {5: 2, 6: 1}
    assert store.accounts[5].bytes_written > 200 > store.accounts[6].bytes_written > 0
    assert store.accounts[5].stall_ns > store.accounts[6].stall_ns > 0
    store.close()


@in_real_time
async def test_a_commit_is_never_on_disk_before_earlier_lazy_writes(time, path):
    store = time.store(path)
    await time.run(store.submit([("t", 1, ("old",))]).wait())
    store.commit_lazily([("t", 1, None), ("t", 2, ("lazy",))])
    await time.run(store.submit([("t", 3, ("commit",))]).wait())
    left = contents(time, copy(path, path.with_name("copy")))
    assert left == {("t", 2): ("lazy",), ("t", 3): ("commit",)}
    store.commit_lazily([("t", 4, ("last",))])
    store.close()
    assert ("t", 4) in contents(time, path)


@in_real_time
async def test_commits_that_have_grown_are_written_anew_as_rows(time, path):
    largest = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_store, "GROWN_BYTES", 200_000)
        store = time.store(path)
        for number in range(100):
            await time.run(store.submit([("t", number % 10, (number, bytes(20_000)))]).wait())
            largest = max(largest, (path / "broker.data").stat().st_size)
        crashed = copy(path, path.with_name("copy"))
        store.close()
    left = {("t", number % 10): (number, bytes(20_000)) for number in range(90, 100)}
    assert largest < 1_000_000 and contents(time, crashed) == left == contents(time, path)


@in_real_time
async def test_a_full_disk_fails_the_commit_and_leaves_the_store_as_it_was(time, path):
    disk = FaultyDisk(Dice(SeededEntropy(1)))
    store = time.store(path, disk=disk)
    await time.run(store.submit([("t", 1, ("before",))]).wait())
    disk.is_full = True
    store.commit_lazily([("t", 1, ("lazy",))])
    flush = store.submit([("t", 2, (bytes(100_000),)), ("t", 4, ("too much",))])  # shares the flush of the lazy write
    with pytest.raises(StoreFull):
        await time.run(flush.wait())
    assert {key: row for _, key, row in store.load()} == {1: ("before",)}
    disk.is_full = False
    await time.run(store.submit([("t", 3, ("small",))]).wait())
    assert {key: row for _, key, row in store.load()} == {1: ("lazy",), 3: ("small",)}
    store.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.embedded.store.test_file_store import RealTime
async def main():
    time = RealTime(asyncio.get_running_loop())
    store = time.store(Path(sys.argv[1]))
    def session(number):
        count = 0
        while True:
            yield from store.submit([("t", (number, count), (count,)), ("u", (number, count), (count,))]).wait()
            print(number, count, flush=True)
            count += 1
    await asyncio.gather(*(time.run(session(number)) for number in range(5)))
asyncio.run(main())
"""


def test_every_confirmed_commit_survives_the_kill_of_its_process(tmp_path):
    path = tmp_path / "data"
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        lines = [writer.stdout.readline() for _ in range(200)]
        writer.kill()
        lines += writer.stdout.readlines()
        writer.wait()
        reported = {tuple(map(int, line.split())) for line in lines if line.endswith("\n")}

        async def look():
            return contents(RealTime(asyncio.get_running_loop()), path)

        left = asyncio.run(look())
        assert len(reported) >= 200 and {("t", key) for key in reported} <= set(left)
        assert {key for table, key in left if table == "t"} == {key for table, key in left if table == "u"}


@in_real_time
async def test_an_engine_recovers_from_any_moment_with_every_committed_message_exactly_once(time, path):
    store = time.store(path)
    engine = _engine(time, store)
    database = await time.run(_set_up(engine))
    handles = await time.run(_begin(engine, database, 8))
    committed, received, moments = [], [], []

    def sender(number):
        for count in range(30):
            tx = engine.transactions.begin()
            body = bytes([number, count])
            yield from engine.dialogs.send(tx, database, [handles[number]], "M", body)
            yield from tx.commit()
            committed.append(body)

    def receiver():
        while len(received) < 120:
            tx = engine.transactions.begin()
            rows = yield from engine.receiving.receive(tx, database, database.catalog.queues["dbo.q"], top=3, wait=True)
            yield from tx.commit()
            received.extend(row.message_body for row in rows)

    async def photographer():
        for number in range(12):
            await asyncio.sleep(0.002)
            to = copy(path, path.with_name(f"moment{number}"))
            moments.append((to, set(committed), set(received)))

    await asyncio.gather(photographer(), time.run(receiver()), *(time.run(sender(number)) for number in range(8)))
    for moment, sent, gone in moments:
        left = _left(time, moment)
        assert len(left) == len(set(left)), "twice"
        assert sent - gone - set(left) <= set(received), "lost"
        assert not gone & set(left), "received and there again"
    store.close()


def _engine(time, store):
    entropy = SystemEntropy()
    engine = Engine(name="x", version="2008", scheduler=time.scheduler, entropy=entropy, store=store)
    engine.recover()
    return engine


def _set_up(engine):
    tx = engine.transactions.begin()
    database = ddl_databases.create_database(tx, engine.databases, "db")
    ddl_services.create_message_type(tx, database.catalog, "M")
    ddl_services.create_contract(tx, database.catalog, "C", usages=[("M", "ANY")])
    ddl_services.create_queue(tx, database.catalog, "dbo", "q", QueueOptions())
    ddl_services.create_service(tx, database.catalog, "S", queue="dbo.q", contracts=["C"])
    yield from tx.commit()
    return database


def _begin(engine, database, count):
    tx = engine.transactions.begin()
    names = {"from_service": "S", "to_service": "S", "contract": "C", "encryption": False}
    begin = partial(engine.dialogs.begin, tx, database, **names)
    handles = []
    for _ in range(count):
        handles.append((yield from begin()))
    yield from tx.commit()
    return handles


def _left(time, moment):
    store = time.store(moment)
    engine = _engine(time, store)
    bodies = [row.message_body for row in engine.databases["db"].catalog.queues["dbo.q"].rows.values()]
    store.close()
    return bodies


@in_real_time
async def test_a_value_that_cannot_be_stored_fails_its_own_commit_and_no_other(time, path):
    store = time.store(path)
    kept = store.submit([("t", 1, ("kept",))])
    for value in (2**64, "\ud800", object()):
        with pytest.raises((OverflowError, UnicodeEncodeError, TypeError)):
            store.submit([("t", 2, ("before",)), ("t", 3, (value,))])
        with pytest.raises((OverflowError, UnicodeEncodeError, TypeError)):
            store.commit_lazily([("t", 4, (value,))])
    await time.run(kept.wait())
    store.close()
    assert contents(time, path) == {("t", 1): ("kept",)}
