"""Queue monitors: when a queue reader is launched."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.embedded.broker.queues import Queue


class MonitorState(StrEnum):
    """sys.dm_broker_queue_monitors.state"""

    INACTIVE = "INACTIVE"
    NOTIFIED = "NOTIFIED"
    RECEIVES_OCCURRING = "RECEIVES_OCCURRING"


class QueueReader:
    """An activated task: a row of sys.dm_broker_activated_tasks."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.database_id = queue.database.database_id
        self.queue_id = queue.object_id
        self.procedure_name = queue.activation_procedure or ""
        self.spid = 0  # entered by the session that runs the procedure


class QueueMonitor:
    """A row of sys.dm_broker_queue_monitors."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.database_id = queue.database.database_id
        self.queue_id = queue.object_id
        self.state = MonitorState.INACTIVE
        self.last_empty_rowset_time: int | None = None  # UTC ns
        self.last_activated_time: int | None = None  # UTC ns
        self.readers: list[QueueReader] = []

    @property
    def tasks_waiting(self) -> int:
        return self.queue.receivers_waiting

    def message_available(self) -> None:
        raise NotImplementedError
