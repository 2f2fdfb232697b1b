"""Two ways to account for the messages of a cell: by the header that the target stores of each, or by counting them.

By header each message is matched: none is lost, duplicated or out of order, and its time to the end of its processing
is known. By count the target stores nothing for the harness. What was sent and waits in no queue has been processed
(`run.counting`): messages that are left over are known, the loss or duplication of single ones is not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.definitions.units import counted
from harness.lab import dialog_pool, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance, Lab
from harness.load.plan import LoadReport
from harness.observe.observers import TargetProgress
from harness.run import accounting, counting
from harness.run.accounting import Accounting
from harness.run.counting import Numbers

Columns = Mapping[str, Any]  # by name, of equal length


class Accounts(Protocol):
    """Call `progress` at any time; after the drain `account` and then `records`, once each."""

    def progress(self) -> TargetProgress:
        """Read how far the target is."""
        ...

    def account(self, report: LoadReport) -> Accounting: ...

    def records(self, returned_ns: Numbers, samples: Columns, moments_ns: Sequence[int]) -> dict[str, Columns]:
        """Return the records of processed messages, by kind.

        `returned_ns` is when each call returned, `moments_ns` are those of `counting.course`.
        """
        ...


class HeaderAccounts:
    """Accounts by the headers in dbo.messageDrop."""

    def __init__(
        self,
        target: Callable[[], Connection],
        run: int,
        target_progress: Callable[[], TargetProgress],
        *,
        has_order: bool,
    ) -> None:
        """`target` returns the connection of the moment: it is another one after a restart."""
        self.progress = target_progress
        self._target = target
        self._run = run
        self._has_order = has_order
        self._deliveries: Columns = {}

    def account(self, report: LoadReport) -> Accounting:
        self._deliveries = scripts.columns(self._target(), "observe/deliveries.sql", {"Run": str(self._run)})
        stored = accounting.stored_by_client(self._deliveries)
        return accounting.compare(report.sent, stored, has_order=self._has_order)

    def records(self, returned_ns: Numbers, samples: Columns, moments_ns: Sequence[int]) -> dict[str, Columns]:
        receives = scripts.columns(self._target(), "observe/receives.sql", {})
        return {"deliveries": self._deliveries, "receives": receives}


class CountAccounts:
    """Accounts by what was sent and by the depths of the queues."""

    def __init__(
        self,
        lab: Lab,
        initiators: Sequence[tuple[Instance, Connection]],
        target_progress: Callable[[], TargetProgress],
        *,
        has_dialogs: bool,
    ) -> None:
        """Dialogs that exist before the cell and after it number the messages that are sent on them."""
        self._lab = lab
        self._initiators = initiators
        self._target_progress = target_progress
        self._depths = counting.Depths()
        self._sent_before = self._sent() if has_dialogs else None

    def progress(self) -> TargetProgress:
        target = self._target_progress()
        self._add(self._lab.target.name, target.queue_depth)
        untransmitted = 0
        for instance, connection in self._initiators:
            depth = dialog_pool.transmission_queue_depth(connection)
            self._add(instance.name, depth)
            untransmitted += depth
        return target._replace(untransmitted=untransmitted)

    def account(self, report: LoadReport) -> Accounting:
        """All queues are empty: no message is left over."""
        errors = {
            instance.name: dialog_pool.error_messages(connection, instance.queue)
            for instance, connection in self._initiators
        }
        ended = next((f"{name}: {text}" for name, text in errors.items() if text), "")
        calls, fault = report.sent_messages, ended
        if self._sent_before is not None and not ended and (sent := self._sent() - self._sent_before) != calls:
            fault = f"{counted(calls, 'call')} sent {counted(sent, 'message')}: a call must send its body once"
        return Accounting(calls, calls, fault=fault)

    def records(self, returned_ns: Numbers, samples: Columns, moments_ns: Sequence[int]) -> dict[str, Columns]:
        metrics = {instance.name: "transmission_queue_depth" for instance, _ in self._initiators}
        metrics[self._lab.target.name] = "queue_depth"
        names = ("instance", "metric", "sampled_at_ns", "value")
        for instance, metric, at_ns, depth in zip(*(samples[name] for name in names), strict=True):
            if metrics.get(instance) == metric:
                self._depths.add(instance, at_ns, depth)
        return {"processed": counting.course(returned_ns, self._depths, moments_ns)}

    def _sent(self) -> int:
        return sum(dialog_pool.sent_messages(connection) for _, connection in self._initiators)

    def _add(self, instance: str, depth: int) -> None:
        self._depths.add(instance, self._lab.clock.utc_ns(), depth)
