"""The session of a client: it runs batches and procedure calls."""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.requests import rpc
from harness.embedded.tsql.session.result_sink import Parameter, ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements import batches


class ClientSession(Session):
    """A session that takes requests. They never raise SqlServerError: errors go to the sink."""

    def batch(self, text: str, sink: ResultSink) -> Waiting[None]:
        """Run a batch of statements."""
        self.is_running, self.task = True, self.engine.scheduler.current
        try:
            step = batches.compiled(self, text)
            yield from batches.run(self, step, sink)
        except SqlServerError as error:
            self.report(error, sink)
            self.after_abort(error)
        finally:
            self.is_running = False
            if self.doomed:
                self.end_doomed(sink)

    def rpc(self, name: str, parameters: Sequence[Parameter], sink: ResultSink) -> Waiting[None]:
        """Call a procedure of the database or a system procedure."""
        self.is_running, self.task = True, self.engine.scheduler.current
        try:
            yield from rpc.call(self, name, parameters, sink)
        except SqlServerError as error:
            self.report(error, sink)
            self.after_abort(error)
        finally:
            self.is_running = False
            if self.doomed:
                self.end_doomed(sink)
