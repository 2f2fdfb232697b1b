"""Connections from client computers, which break when their instance is killed.

A call travels to the instance, runs there as a task, and its answer travels back. If the instance dies or restarts in
between, the caller learns only that its connection is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.embedded.runtime.tasks import MILLISECOND, Delay, Signal, Waiting
from harness.embedded.tsql.requests import ClientSession
from harness.embedded.tsql.session.results import DiscardedResults
from harness.simulation.faults.checkers import Told
from harness.simulation.world import Server

# Between client and instance in each direction. It is long for a switch, so that an instance sometimes dies after a
# commit while the answer is under way.
TRIP_NS = MILLISECOND // 2
CONNECT_AGAIN_NS = 100 * MILLISECOND
ERROR_SEVERITY = 11

Request = Callable[[ClientSession, DiscardedResults], Waiting[None]]


class Answer(NamedTuple):
    told: Told
    error: str = ""
    rows: Sequence[Sequence[Any]] = ()


class _Results(DiscardedResults):
    def __init__(self) -> None:
        self.found: list[Sequence[Any]] = []
        self.error = ""

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        self.found.extend(rows)

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        if severity >= ERROR_SEVERITY and not self.error:
            self.error = f"error {number}: {text}"


class _Exchange:
    """A request at the instance, until its answer leaves or the instance dies."""

    def __init__(self) -> None:
        self.results: _Results | None = None
        self.is_over = False
        self.over = Signal()

    def end(self) -> None:
        self.is_over = True
        self.over.notify_all()


class InstanceConnections:
    """All requests at one instance; `broken` is called when it is killed."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.exchanges: list[_Exchange] = []
        self.asked = Signal()  # notified when a request arrives

    def broken(self) -> None:
        """End all requests without an answer, because the instance is dead."""
        exchanges, self.exchanges = self.exchanges, []
        for exchange in exchanges:
            exchange.end()


class ClientConnection:
    """The connection of one client, which reconnects when it has broken."""

    def __init__(self, board: InstanceConnections, *, login: str, database: str) -> None:
        self._board = board
        self._server = board.server
        self._login, self._database = login, database
        self._session: ClientSession | None = None
        self._start = 0  # number of the instance's start when the session was opened

    def call(self, request: Request) -> Waiting[Answer]:
        """Send a request, and connect before for as long as that takes; the answer tells the result."""
        while not self._server.is_running:
            yield Delay(CONNECT_AGAIN_NS)
        session = self._connected()
        yield Delay(TRIP_NS)
        if self._is_broken:
            return Answer(Told.CUT_OFF)
        exchange = _Exchange()
        self._board.exchanges.append(exchange)
        self._board.asked.notify_all()
        self._server.scheduler.spawn(self._serve(session, request, exchange), "call")
        while not exchange.is_over:
            yield exchange.over.wait()
        if exchange.results is None:
            return Answer(Told.CUT_OFF)
        yield Delay(TRIP_NS)
        if self._is_broken:
            return Answer(Told.CUT_OFF)
        results = exchange.results
        if results.error:
            return Answer(Told.REFUSED, results.error)
        return Answer(Told.COMMITTED, rows=results.found)

    def _serve(self, session: ClientSession, request: Request, exchange: _Exchange) -> Waiting[None]:
        results = _Results()
        yield from request(session, results)
        exchange.results = results
        self._board.exchanges.remove(exchange)
        exchange.end()

    @property
    def _is_broken(self) -> bool:
        return not self._server.is_running or self._server.starts != self._start

    def _connected(self) -> ClientSession:
        if self._session is None or self._is_broken:
            self._session = self._server.session(login=self._login, database=self._database, program="faults")
            self._start = self._server.starts
        return self._session
