"""A queue reader outside the server: `python -m harness.activator.reader`, what an activator starts.

It does what the paper's activation procedure does, `sql/workloads/paper/receive_procedure.sql`, but the messages come
to this process: RECEIVE TOP (n), the first 2000 bytes of each message into dbo.messageDrop, the count into
dbo.receiveCount, all in one transaction. `sql/target/` creates these tables. It ends where no message has come for a
while; SIGTERM and SIGINT let it finish the transaction that it is in.

"Never do a rollback", says the paper: five in a row disable the queue. Where a batch fails, it is rolled back once, and
as many messages are received one at a time. One that fails alone goes to dbo.messageErrors and is committed there. Only
an error that dooms the transaction is rolled back again: the message returns to the queue, the reader pauses and goes
on. EndDialog and Error end the conversation here too; the text of an Error goes to dbo.messageErrors.
"""

import os
import signal
import sys
import time
from contextlib import closing
from typing import Any, NoReturn

import click

from harness.activator.statements import END_DIALOG, ERROR, first_rows
from harness.failures import MachineFailure
from harness.files.script_text import substitute
from harness.lab import drivers, interruption
from harness.lab.drivers import Connection, OdbcError
from harness.lab.error_remedies import error_text
from harness.output.terminal import to_standard_error

PROGRAM = "service-broker-harness reader"
_ANSWER_TIMEOUT_S = 600  # for a statement
_MACHINE_FAILURE = 3  # the exit code, as of harness
_SLICE_MS = 500  # of a wait for messages: SIGTERM is noticed in between
_PAUSE_S, _PAUSE_MAX_S = 0.1, 5.0  # after a transaction that was doomed; doubles

_RECEIVE = """
SET NOCOUNT ON;
SET XACT_ABORT OFF;
BEGIN TRANSACTION;
WAITFOR (
    RECEIVE TOP ($(Top)) conversation_handle, message_type_name, message_body
    FROM $(Queue)
), TIMEOUT $(Ms);
"""
_COUNT = "INSERT INTO dbo.receiveCount (messages, received_at, session_id) VALUES (?, SYSUTCDATETIME(), @@SPID);"
_STORE = "INSERT INTO dbo.messageDrop (messageVal) VALUES (CAST(? AS varbinary(2000)));"
_STORE_ERROR = """
INSERT INTO dbo.messageErrors (conversation_handle, message_type_name, message_body, error_number, error_message)
VALUES (?, ?, ?, NULL, ?);
"""
_ENDED_BY_ERROR = "The other side ended the conversation with an error."


class Reader:
    """Receives from a queue (schema.name) over one connection. Every method raises OdbcError if that is lost."""

    def __init__(self, connection: Connection, queue: str, *, top: int, timeout_ms: int) -> None:
        self._connection, self._queue, self._top, self._timeout_ms = connection, queue, top, timeout_ms
        self._singly = 0  # messages to receive one at a time
        self._pause_s = _PAUSE_S
        self._is_stopping = False

    def stop(self) -> None:
        """Let `run` end after the transaction that it is in."""
        self._is_stopping = True

    def run(self) -> None:
        """Receive until no message has come for the timeout, or until it shall stop."""
        waited_ms = 0
        while not self._is_stopping and waited_ms < self._timeout_ms:
            wait_ms = min(_SLICE_MS, self._timeout_ms - waited_ms)
            messages = self._receive(wait_ms)
            if not messages:
                self._do("COMMIT TRANSACTION;")
                waited_ms += wait_ms
                continue
            waited_ms = 0
            try:
                self._process(messages)
                self._do("COMMIT TRANSACTION;")
                self._singly = max(0, self._singly - 1)
                self._pause_s = _PAUSE_S
            except OdbcError as error:
                self._after(error, messages)

    def _receive(self, wait_ms: int) -> list[Any]:
        top = 1 if self._singly else self._top
        variables = {"Top": str(top), "Queue": self._queue, "Ms": str(wait_ms)}
        return self._do(substitute(_RECEIVE, variables, origin="RECEIVE"))

    def _process(self, messages: list[Any]) -> None:
        self._do(_COUNT, len(messages))
        bodies = [(body,) for _, kind, body in messages if kind not in (ERROR, END_DIALOG)]
        if bodies:
            with closing(self._connection.cursor()) as cursor:  # a failed one has results
                interruption.call(cursor, lambda: cursor.executemany(_STORE, bodies))
        for handle, kind, body in messages:
            if kind == ERROR:
                self._do(_STORE_ERROR, handle, kind, body, _ENDED_BY_ERROR)
            if kind in (ERROR, END_DIALOG):
                self._do(f"END CONVERSATION '{handle}';")

    def _after(self, error: Exception, messages: list[Any]) -> None:
        """Keep a single message that fails; receive the messages of a batch that fails one at a time."""
        [[state]] = self._do("SELECT XACT_STATE();")  # fails if the connection is lost
        if len(messages) == 1 and state == 1:
            handle, kind, body = messages[0]
            self._do(_STORE_ERROR, handle, kind, body, error_text(error)[:4000])
            self._do("COMMIT TRANSACTION;")
            self._singly = max(0, self._singly - 1)
            return
        self._do("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;")
        if len(messages) > 1:
            self._singly = len(messages)
            return
        to_standard_error(f"a message was rolled back: {error_text(error)}")
        time.sleep(self._pause_s)
        self._pause_s = min(_PAUSE_MAX_S, 2 * self._pause_s)

    def _do(self, statement: str, *values: Any) -> list[Any]:
        """The rows of a statement's first result set."""
        return first_rows(self._connection, statement, *values)


@click.command(context_settings={"auto_envvar_prefix": "HARNESS_READER", "help_option_names": ["-h", "--help"]})
@click.option("--host", required=True, help="The server.")
@click.option("--port", default=1433, show_default=True)
@click.option("--user", help="SQL login; without one, integrated authentication.")
@click.option("--entra", "is_entra", type=bool, default=False, help="The user is an application in Microsoft Entra.")
@click.option("--database", required=True)
@click.option("--queue", required=True, metavar="SCHEMA.NAME", help="The queue to receive from.")
@click.option("--top", type=click.IntRange(min=1), default=1000, show_default=True, help="Messages of one RECEIVE.")
@click.option("--timeout-ms", type=click.IntRange(min=1), default=3000, show_default=True, help="Longest wait for one.")
@click.option("--driver", type=click.Choice(("auto", "microsoft", "freetds")), default="auto", show_default=True)
@click.option("--encrypt", type=click.Choice(("optional", "mandatory", "strict")), default="mandatory")
@click.option("--trust-server-certificate", type=bool, default=False, show_default=True)
def main(queue: str, top: int, timeout_ms: int, driver: Any, port: int, **login: Any) -> None:
    """Receive from a queue until it is empty, and store the messages as the paper's activation procedure does.

    Every option may be in the environment: HARNESS_READER_HOST, HARNESS_READER_TOP and so on, as harness activator sets
    them. HARNESS_PASSWORD is the password of the login.
    """
    try:
        drivers.check_manager()
        connection_string = drivers.choose(driver).connection_string(
            port=port, password=os.environ.get("HARNESS_PASSWORD"), program=PROGRAM, **login
        )
        connection = drivers.connect(connection_string)
        connection.timeout = _ANSWER_TIMEOUT_S
        reader = Reader(connection, queue, top=top, timeout_ms=timeout_ms)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: reader.stop())
        reader.run()
    except MachineFailure as error:
        _end_with(str(error))
    except OdbcError as error:
        _end_with(error_text(error))


def _end_with(message: str) -> NoReturn:
    to_standard_error(f"reader: {message}")
    sys.exit(_MACHINE_FAILURE)


if __name__ == "__main__":
    main()
