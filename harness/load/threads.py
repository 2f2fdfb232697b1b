"""The client thread: one native thread, one connection, one used dialog, one loop of calls.

In the closed loop a thread calls again when its call has returned. In the open loop the threads of an initiator share
its schedule: whoever is free takes the next intended start and waits for it. If each thread owned every n-th start, a
stall of one thread would delay its sends while others wait for nothing; so a send is late only if no thread is free.

This module uses no gevent and no Locust, and never logs or prints. The hub sends a thread its orders through a
SimpleQueue and reads its `state` and counters, each of which has one writer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from queue import SimpleQueue
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyodbc

from harness.files.message_bodies import Bodies
from harness.files.workload_file import Client
from harness.load.bodies import Compose, composer
from harness.load.payload import STAMP, STAMP_OFFSET, new_body
from harness.load.plan import SEND_MESSAGE
from harness.machine.clocks import utc_offset_ns
from harness.output.safe_text import visible

# A pooled connection would hide the cost of connecting and the state of its session.
pyodbc.pooling = False

PING = "SELECT 1"
# Explicit: SEND begins no implicit transaction, so ODBC's own (autocommit off) would leave each call alone.
BEGIN = "BEGIN TRANSACTION"
COMMIT = "COMMIT TRANSACTION"
ROLL_BACK = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"

LOGIN_TIMEOUT_S = 15
# A longer call fails with HYT00. Nothing else interrupts a thread inside the driver.
CALL_TIMEOUT_S = 30
# Up to this size pyodbc passes a body whole. By default it sends a body longer than a varbinary(n) in pieces: more work
# for Microsoft's driver, and an error in FreeTDS.
WHOLE_BODY_BYTES = 1 << 20
FAILURES_IN_A_ROW_MAX = 10  # a dead connection fails at once, for ever: the thread must not spin
CALLS_PER_CHUNK = 16384
STOP_LOOK_S = 0.1  # a thread that waits for its turn looks so often whether the run is stopping


class ThreadState(Enum):
    """The state of a client thread. The thread sets it, except PREPARING and RUNNING, which are orders."""

    PARKED = "parked"  # no cell
    PREPARING = "preparing"
    READY = "ready"  # at the barrier
    UNPREPARED = "unprepared"  # for `reason`
    RUNNING = "running"
    FINISHED = "finished"  # returned from its last call
    GAVE_UP = "gave up"  # too many failures in a row; `reason` has the last
    RETIRED = "retired"  # abandoned in a call, or closed


class CallLog:
    """Intended start, start and latency, which counts from the intended start, of every call of one thread in one cell.

    They lie in chunks allocated before they are needed. In the closed loop the intended start is the start.
    """

    def __init__(self) -> None:
        self.intended: list[array[int]] = [_chunk()]
        self.starts: list[array[int]] = [_chunk()]
        self.latencies: list[array[int]] = [_chunk()]
        self.count = 0  # calls returned; written by the thread, after the call's numbers
        self.failures: list[tuple[int, str]] = []  # index of the call, text

    def clear(self) -> None:
        """Empty the log and keep its memory."""
        self.count = 0
        self.failures = []

    def fail(self, calls: Iterable[int], error: Exception) -> None:
        """Note the error of calls: of one, or of all that its transaction held, as none of their messages is sent."""
        text = error_text(error)
        self.failures.extend((number, text) for number in calls)

    def intended_ns(self, first: int = 0, last: int | None = None) -> npt.NDArray[np.int64]:
        return self._joined(self.intended, first, self.count if last is None else last)

    def starts_ns(self) -> npt.NDArray[np.int64]:
        return self._joined(self.starts, 0, self.count)

    def time_in_calls_ns(self) -> int:
        """Return the sum of the times from the calls' starts, not the intended ones, to their returns."""
        return int((self.intended_ns() + self.latencies_ns() - self.starts_ns()).sum())

    def latencies_ns(self, first: int = 0, last: int | None = None) -> npt.NDArray[np.int64]:
        return self._joined(self.latencies, first, self.count if last is None else last)

    @staticmethod
    def _joined(chunks: list[array[int]], first: int, last: int) -> npt.NDArray[np.int64]:
        pieces = []
        for number in range(first // CALLS_PER_CHUNK, -(-last // CALLS_PER_CHUNK)):
            base = number * CALLS_PER_CHUNK
            chunk = np.frombuffer(chunks[number], dtype=np.int64)
            pieces.append(chunk[max(0, first - base) : max(0, last - base)])
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


class Turns:
    """The intended starts of an initiator's sends. Each is given to one thread, in their order."""

    def __init__(self, starts_ns: Iterator[int]) -> None:
        self._starts_ns = starts_ns
        self._lock = threading.Lock()
        self.began_ns = 0  # the cell's start, by the clock of the threads

    def take(self) -> int:
        """Return the next intended start, by the clock of the threads."""
        with self._lock:
            return self.began_ns + next(self._starts_ns)


class CellRun:
    """State that the threads of one worker share in one cell. `stopping` and `turns` are all that they read in their
    loop."""

    def __init__(
        self,
        *,
        connection_string: str,
        initiator: int,
        run: int,
        payload_bytes: int,
        client: Client = SEND_MESSAGE,
        bodies: Bodies | None = None,
        threads: int = 1,
        turns: Turns | None = None,
    ) -> None:
        self.connection_string = connection_string
        self.initiator = initiator
        # In text it is a moment: an application's table may have a key, and attempts are counted anew in each run.
        # Cells may be shorter than a second.
        self.run = time.time_ns() // 10**6 if bodies and bodies.template else run
        self.payload_bytes = payload_bytes
        # None: each thread has one, of `payload_bytes`.
        self.bodies = bodies and bodies.of_payload(payload_bytes)
        self.threads = threads
        self.client = client
        self.stopping = False
        self.turns = turns  # None: the closed loop
        self.clock_offset_ns = utc_offset_ns()

    def new_transaction(self, execute: Callable[..., Any]) -> SharedTransaction | None:
        """What shares transactions among the calls of a thread; None if each call has its own."""
        calls = self.client.messages_per_transaction
        return SharedTransaction(execute, calls) if calls > 1 else None


class SharedTransaction:
    """Transactions of one thread, each of which holds so many of its calls; the last call commits it."""

    def __init__(self, execute: Callable[..., Any], calls: int) -> None:
        self._execute = execute
        self._calls = calls
        self.uncommitted = 0  # calls that have returned in the open transaction

    def execute(self, call: str, arguments: Sequence[Any]) -> None:
        """Execute a call; raise pyodbc.Error, also that of the commit."""
        if not self.uncommitted:
            self._execute(BEGIN)
        self._execute(call, arguments)
        if self.uncommitted + 1 == self._calls:
            self._execute(COMMIT)
            self.uncommitted = 0
        else:
            self.uncommitted += 1

    def commit(self) -> None:
        """Commit what is open; raise pyodbc.Error."""
        if self.uncommitted:
            self._execute(COMMIT)
            self.uncommitted = 0

    def roll_back(self) -> int:
        """Roll back after a call that failed; return how many calls before it are lost with it."""
        lost, self.uncommitted = self.uncommitted, 0
        with contextlib.suppress(pyodbc.Error):  # on a dead connection the server does
            self._execute(ROLL_BACK)
        return lost


class ClientThread:
    """One test client. Orders (`prepare`, `start`, `park`, `disconnect`, `retire`) come from the hub; they return at
    once."""

    def __init__(self) -> None:
        self.state = ThreadState.PARKED
        self.number = 0
        self.reason = ""
        self.round_trip_ns = 0  # to the server and back
        self.log = CallLog()
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._run: CellRun | None = None
        self._connection: pyodbc.Connection | None = None
        self._connected_to = ""
        self._cursor: Any = None
        self._call = ""
        self._arguments: list[Any] = []  # that are bound
        self._place = 0  # of the body among them
        self._body = bytearray()  # one of them, changed before each call
        self._compose: Compose | None = None  # makes a body for each call instead
        threading.Thread(target=self._obey, daemon=True).start()

    def prepare(self, run: CellRun, number: int, handle: str) -> None:
        """Connect, take the dialog or broker instance and wait at the barrier: READY, or UNPREPARED."""
        self.state = ThreadState.PREPARING
        self.number = number
        self._run = run
        self._orders.put(partial(self._prepare_now, run, UUID(handle)))

    def start(self) -> None:
        """Open the barrier: RUNNING until the run is stopping, then FINISHED; GAVE_UP after too many failures."""
        assert self.state is ThreadState.READY and self._run is not None, self.state
        self.state = ThreadState.RUNNING
        self._orders.put(partial(self._send_until_stopping, self._run))

    def park(self) -> None:
        """Keep the connection for another user. The cell ends: it would go on with one thread less."""
        if self._run is not None:
            self._run.stopping = True
        if self.state is not ThreadState.RETIRED:
            self.state = ThreadState.PARKED

    def disconnect(self) -> threading.Event:
        """Close the connection, once a call in progress has returned, and then set the event."""
        closed = threading.Event()

        def close() -> None:
            self._disconnect()
            closed.set()

        self._orders.put(close)
        return closed

    def retire(self) -> None:
        """Close the connection and end the thread, once a call in progress has returned."""
        self.state = ThreadState.RETIRED
        self._orders.put(None)

    def _obey(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
        self._disconnect()

    def _prepare_now(self, run: CellRun, handle: UUID) -> None:
        try:
            # The server of a parked connection may have been rebuilt meanwhile, or have disconnected it.
            if self._connected_to != run.connection_string or not self._is_alive():
                self._connect(run.connection_string)
                self._ping()
        except pyodbc.Error as error:
            self.reason = error_text(error)
            self.state = ThreadState.UNPREPARED
            return
        longest, is_text, self._compose = run.payload_bytes, False, None
        if not run.bodies:
            self._body = new_body(run.payload_bytes, run=run.run, initiator=run.initiator, thread=self.number)
        else:
            longest, is_text = max(run.bodies.sizes), bool(run.bodies.template)
            self._compose = composer(
                run.bodies, run=run.run, initiator=run.initiator, thread=self.number, threads=run.threads
            )
        self._call, bound = run.client.call_on(handle)
        self._cursor.setinputsizes(input_sizes(self._connection, longest, bound, is_text=is_text))
        values = {
            "handle": handle,
            "broker_instance": handle,
            "body": self._body,
            "initiator": run.initiator,
            "thread": self.number,
            **run.client.values,
        }
        self._arguments, self._place = [values[name] for name in bound], bound.index("body")
        self.log.clear()
        self.reason = ""
        self.state = ThreadState.READY

    def _connect(self, connection_string: str) -> None:
        self._disconnect()
        self._connection = pyodbc.connect(connection_string, autocommit=True, timeout=LOGIN_TIMEOUT_S)
        self._connection.timeout = CALL_TIMEOUT_S
        self._connection.maxwrite = WHOLE_BODY_BYTES
        self._connected_to = connection_string
        self._cursor = self._connection.cursor()

    def _disconnect(self) -> None:
        connection, self._connection, self._cursor, self._connected_to = self._connection, None, None, ""
        if connection is not None:
            with contextlib.suppress(pyodbc.Error):
                connection.close()

    def _is_alive(self) -> bool:
        """Whether the server still answers on this connection."""
        try:
            self._ping()
        except pyodbc.Error:
            return False
        return True

    def _ping(self) -> None:
        """Time the way to the server and back, the better of two, by a query that needs no permission."""
        assert self._connection is not None
        times_ns = []
        with self._connection.cursor() as cursor:
            for _ in range(2):
                began_ns = time.perf_counter_ns()
                cursor.execute(PING)
                times_ns.append(time.perf_counter_ns() - began_ns)
        self.round_trip_ns = min(times_ns)

    def _send_until_stopping(self, run: CellRun) -> None:  # noqa: PLR0912  a call of a method would cost every message
        """Run the loop. It shares nothing with other threads but `run.stopping` and `run.turns`."""
        log = self.log
        transaction = run.new_transaction(self._cursor.execute)
        execute = transaction.execute if transaction else self._cursor.execute
        send, arguments, body = self._call, self._arguments, self._body
        compose, place = self._compose, self._place
        offset, clock, stamp, turns = run.clock_offset_ns, time.perf_counter_ns, STAMP.pack_into, run.turns
        think_time_s = run.client.think_time
        failures_in_a_row = 0
        sequence = 0
        while not run.stopping and failures_in_a_row < FAILURES_IN_A_ROW_MAX:
            chunk, first = divmod(sequence, CALLS_PER_CHUNK)
            if chunk == len(log.starts):
                for chunks in (log.intended, log.starts, log.latencies):
                    chunks.append(_chunk())
            intendeds, starts, latencies = log.intended[chunk], log.starts[chunk], log.latencies[chunk]
            for index in range(first, CALLS_PER_CHUNK):
                intended = clock() if turns is None else _turn(turns, run)
                if run.stopping:
                    break
                started = intended if turns is None else clock()
                if compose is None:
                    stamp(body, STAMP_OFFSET, sequence, intended + offset)
                else:
                    arguments[place] = compose(sequence, intended + offset)
                try:
                    execute(send, arguments)  # the list as it is: unpacking it would cost a call 60 ns and more
                except pyodbc.Error as error:
                    latencies[index] = clock() - intended
                    lost = transaction.roll_back() if transaction else 0
                    in_a_row = bool(log.failures) and log.failures[-1][0] == sequence - lost - 1
                    failures_in_a_row = failures_in_a_row + 1 if in_a_row else 1
                    log.fail(range(sequence - lost, sequence + 1), error)
                else:
                    latencies[index] = clock() - intended
                intendeds[index], starts[index] = intended, started
                sequence += 1
                log.count = sequence
                if failures_in_a_row >= FAILURES_IN_A_ROW_MAX:
                    break
                if think_time_s:
                    _sleep_until(clock() + round(think_time_s * 1e9), run)
        if transaction:
            try:
                transaction.commit()
            except pyodbc.Error as error:
                log.fail(range(sequence - transaction.roll_back(), sequence), error)
        self._end(run, failures_in_a_row)

    def _end(self, run: CellRun, failures_in_a_row: int) -> None:
        """Say how the loop ended: FINISHED or GAVE_UP."""
        if self.state is not ThreadState.RUNNING or self._run is not run:
            return  # retired, or parked meanwhile
        if failures_in_a_row >= FAILURES_IN_A_ROW_MAX:
            self.reason = f"gave up after {failures_in_a_row} failed calls in a row: {self.log.failures[-1][1]}"
            self._disconnect()
            self.state = ThreadState.GAVE_UP
        else:
            self.state = ThreadState.FINISHED


def _turn(turns: Turns, run: CellRun) -> int:
    """Take the next intended start and sleep until then, or until the run is stopping."""
    intended = turns.take()
    _sleep_until(intended, run)
    return intended


def _sleep_until(until_ns: int, run: CellRun) -> None:
    """Sleep until then, by the clock of the threads, or until the run is stopping."""
    while not run.stopping and (left_ns := until_ns - time.perf_counter_ns()) > 0:
        time.sleep(min(left_ns / 1e9, STOP_LOOK_S))


def input_sizes(
    connection: pyodbc.Connection, body_bytes: int, parameters: Sequence[str], *, is_text: bool = False
) -> list[tuple[int, int, int] | None]:
    """Types of the procedure's parameters with which a body of up to `body_bytes` is sent as varbinary(max).

    Text is sent as nvarchar(max). Microsoft's driver refuses 8192 bytes as varbinary(n) and takes size 0 for max. With
    that size FreeTDS would send an empty body, and it silently truncates varbinary(n) at 8000 bytes; its varbinary(max)
    is SQL_LONGVARBINARY. None, as for a value of the workload: the type that pyodbc gives to the Python value.
    """
    freetds = "tds" in connection.getinfo(pyodbc.SQL_DRIVER_NAME).lower()
    body = (pyodbc.SQL_LONGVARBINARY, body_bytes, 0) if freetds else (pyodbc.SQL_VARBINARY, 0, 0)
    if is_text:
        body = (pyodbc.SQL_WLONGVARCHAR, body_bytes // 2, 0) if freetds else (pyodbc.SQL_WVARCHAR, 0, 0)
    guid, number = (pyodbc.SQL_GUID, 16, 0), (pyodbc.SQL_INTEGER, 0, 0)
    types = {"handle": guid, "broker_instance": guid, "body": body, "initiator": number, "thread": number}
    return [types.get(name) for name in parameters]


def error_text(error: Exception) -> str:
    """An ODBC error in one line; the driver's text has its SQL state."""
    text = str(error.args[1]) if isinstance(error, pyodbc.Error) and len(error.args) > 1 else str(error)
    return visible(" ".join(text.split())[:400])


def _chunk() -> array[int]:
    return array("q", bytes(8 * CALLS_PER_CHUNK))
