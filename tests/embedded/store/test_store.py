"""MemoryStore: several flushes in flight."""

import pytest

from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.runtime.virtual import VirtualClock, VirtualDriver
from harness.embedded.store import MemoryStore


def test_with_several_flushes_in_flight_none_may_fail():
    """Lazy writes of a failed flush would reach the disk after commits of the next one."""
    driver = VirtualDriver(VirtualClock())
    scheduler = driver.scheduler()
    store = MemoryStore(scheduler, flush_ns=lambda size_bytes: MILLISECOND, flushes_in_flight=2)
    driver.finish(scheduler, store.commit([("t", 1, (1,))]))
    store.is_full = True
    with pytest.raises(AssertionError, match="others in flight"):
        driver.finish(scheduler, store.commit([("t", 2, (2,))]))
