"""Which writes share a flush, in virtual time."""

import pytest

from harness.embedded.runtime.tasks import SECOND
from harness.embedded.runtime.virtual import VirtualClock, VirtualDriver
from harness.embedded.store.memory_store import MemoryStore


def test_what_comes_during_a_flush_shares_the_next_one_even_if_nobody_waits_for_it():
    driver = VirtualDriver(VirtualClock())
    store = MemoryStore(driver.scheduler(), flush_ns=lambda size_bytes: SECOND)
    store.submit([("t", 1, (1,))])
    driver.run_for(0.5)
    store.submit([("t", 2, (2,))])
    store.commit_lazily([("t", 3, (3,))])
    driver.run_for(1)
    assert (store.flushes, list(store.rows)) == (2, [("t", 1)])
    store.commit_lazily([("t", 4, (4,))])
    driver.run_for(2)
    assert (store.flushes, len(store.rows)) == (3, 4)


def test_with_several_flushes_in_flight_none_may_fail():
    """Lazy writes of a failed flush would reach the disk after commits of the next one."""
    driver = VirtualDriver(VirtualClock())
    scheduler = driver.scheduler()
    store = MemoryStore(scheduler, flush_ns=lambda size_bytes: SECOND, flushes_in_flight=2)
    driver.finish(scheduler, store.submit([("t", 1, (1,))]).wait())
    store.is_full = True
    with pytest.raises(AssertionError, match="others in flight"):
        driver.finish(scheduler, store.submit([("t", 2, (2,))]).wait())
