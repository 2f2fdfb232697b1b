"""Read a server's queues, look by look, at little cost to it.

A look reads what is cheap: the monitors of the whole server in one round trip, row counts and totals of each database
in another. All else is a *detail*: definitions, messages by status, reasons of the transmission queue, evidence. The
first look reads all details, a later one as many as their share allows, the one that was read longest ago first. Looks
and details have shares of a core of the server, by its own clock: what took 10 ms is followed by a pause.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from harness.failures import UsageFailure, nearest
from harness.lab import dialog_pool, procedure_text
from harness.lab.instances import Instance
from harness.monitors.asking import NO_USER, Asker, LockTimeout, NoDatabase, Rows, error_number
from harness.monitors.state import (
    CONVERSATIONS_MAX,
    Certificate,
    Conversations,
    Database,
    Endpoint,
    Monitor,
    Queue,
    Route,
    Server,
    Session,
    Waiting,
)

# Of a core of the server, by its clock, which does not see all that an answer costs it: together about one per cent.
LOOKS_SHARE, DETAILS_SHARE = 0.007, 0.001
DEAR_S = 0.004  # where counts and totals of a database take longer, each look reads one of the two
LIMIT = 10_000  # rows of a status, or of a transmission queue, that are looked at
DETAILED_QUEUES = 50  # of a database, the deepest: messages by status
_SYSXMITQUEUE, _SYSDESEND = 68, 72  # object ids
_LOG_LINES = 3
_REFUSALS_LAST = timedelta(minutes=10)
_LOG_IS_BEHIND = timedelta(seconds=2)  # at most: a line is newer than the launch that it is about
_OWNER = -2  # execute_as_principal_id of EXECUTE AS OWNER

_COUNTS: tuple[str, ...] = ("monitors/depths", "monitors/traffic")

Detail = tuple[tuple[str, ...], Callable[[], None]]


class Reader:
    """Looks at one server again and again. `database` limits it to one; one that is not `alone` also reads which others
    it has refused. Not for several threads."""

    def __init__(self, instance: Instance, *, database: str | None = None, alone: bool = True) -> None:
        self.address = f"{instance.host}:{instance.port}"
        self.place = f"{instance.name} ({self.address})"
        self._asker = Asker(instance)
        self._only, self._is_alone = database, alone
        self._server = Server(instance.name, self.address)
        self._tables: dict[tuple[int, int], Queue] = {}  # database and internal table → queue
        self._totals: dict[tuple[int, int], tuple[float, int, int]] = {}  # the same → moment, inserted, deleted
        self._states: dict[tuple[int, int], tuple[str, float]] = {}  # database and queue → monitor's state, since when
        self._read_at: dict[tuple[str, ...], float] = {}  # detail → when
        self._locked: dict[str, str] = {}  # database → what this look could not read
        self._local_time: datetime | None = None  # the server's, when its monitors were read
        self._details_due = 0.0
        self._turn: dict[int, int] = {}  # database where a look is dear → which script was read last

    def close(self) -> None:
        self._asker.close()

    def look(self, *, thoroughly: bool = False) -> Server:
        """Return the server as it is now. The first look, and a thorough one, reads all details.

        The state is the same object at every look. Raises MachineFailure if the server does not answer, UsageFailure
        if it has no such database.
        """
        is_first = not self._read_at
        self._locked.clear()
        if is_first:
            self._read_databases()
            for database in self._server.databases:
                self._tried(database, partial(self._read_definitions, database))
        before_s = self._asker.cost_s
        self._tried(None, self._read_monitors)
        for database in self._server.databases:
            self._tried(database, partial(self._read_counts, database, with_conversations=is_first or thoroughly))
        self._server.cost_s = self._asker.cost_s - before_s
        self._read_details(all_of_them=is_first or thoroughly)
        missing = [problem for database in self._server.databases for problem in database.problems]
        lost = [f"the database {self._only} has gone"] if self._only and not self._server.databases else []
        closed = [database.name for database in self._server.databases if not database.has_user]
        if closed:
            missing.append(f"not shown: {', '.join(closed)}: the login may not use them; remedy: give it a user there")
        self._server.problems = [*self._asker.refusals(), *missing, *lost, *self._locked.values()]
        return self._server

    # -- what every look reads

    def _read_monitors(self) -> None:
        rows = self._asker.ask("", ["monitors/queue_monitors"], {}).get("monitors/queue_monitors")
        self._server.knows_monitors = rows is not None
        now = time.monotonic()
        by_queue = {(row["database_id"], row["queue_id"]): row for row in rows or ()}
        for row in rows or ():
            self._local_time = row["local_time"]
        for database in self._server.databases:
            for queue in database.queues:
                key = database.database_id, queue.queue_id
                if (queue.monitor is not None) != (key in by_queue):
                    queue.is_outdated = True
                    self._read_at.pop((self._read_definitions.__name__, database.name), None)  # the next detail
                queue.monitor = self._monitor(key, by_queue[key], now) if key in by_queue else None
        self._states = {key: since_s for key, since_s in self._states.items() if key in by_queue}

    def _monitor(self, key: tuple[int, int], row: Mapping[str, Any], now: float) -> Monitor:
        state = str(row["state"])
        if self._states.get(key, ("", 0.0))[0] != state:
            self._states[key] = state, now
        activated_s, empty_s = _age(row["last_activated_time"], row), _age(row["last_empty_rowset_time"], row)
        since_s = now - self._states[key][1]
        if state == "NOTIFIED" and activated_s is not None:
            since_s = max(since_s, activated_s)
        if state == "INACTIVE" and activated_s is not None:
            since_s = min(since_s, activated_s)  # other states between two looks were not seen
        return Monitor(state, int(row["tasks_waiting"] or 0), int(row["readers"]), activated_s, empty_s, since_s)

    def _read_counts(self, database: Database, *, with_conversations: bool) -> None:
        names = _COUNTS
        if (turn := self._turn.get(database.database_id)) is not None and not with_conversations:
            self._turn[database.database_id] = 1 - turn
            names = names[1 - turn :][:1]
        before_s = self._asker.cost_s
        answers = self._asker.ask(database.name, names, {})
        now = time.monotonic()
        if self._asker.cost_s - before_s > DEAR_S and len(answers) == len(_COUNTS):
            self._turn[database.database_id] = 1
        for row in answers.get("monitors/depths", ()):
            queue = self._tables.get((database.database_id, row["object_id"]))
            if queue is not None:
                queue.rows = row["row_count"]
                if not queue.rows:
                    queue.statuses = queue.oldest_s = None  # of messages that have gone
            elif row["object_id"] == _SYSXMITQUEUE:
                database.transmission_rows = row["row_count"]
            elif row["object_id"] == _SYSDESEND:
                database.conversation_rows = row["row_count"]
        for row in answers.get("monitors/traffic", ()):
            key = database.database_id, row["object_id"]
            if key in self._tables:
                self._measure(key, self._tables[key], now, row["inserted"], row["deleted"] + row["ghosts"])

    def _measure(self, key: tuple[int, int], queue: Queue, now: float, inserted: int, deleted: int) -> None:
        """Compute rates from two readings. Totals that went back have begun anew."""
        before = self._totals.get(key)
        self._totals[key] = now, inserted, deleted
        if before is None or inserted < before[1] or deleted < before[2]:
            queue.in_per_s = queue.out_per_s = None
            return
        seconds = max(now - before[0], 0.001)
        queue.in_per_s, queue.out_per_s = (inserted - before[1]) / seconds, (deleted - before[2]) / seconds
        queue.still_s = queue.still_s + seconds if deleted == before[2] and queue.rows else 0.0
        if queue.stands_still and queue.oldest_s is not None:
            queue.oldest_s += seconds

    # -- details

    def _read_details(self, *, all_of_them: bool) -> None:
        """Read all details, or those that fit into their share, the one that was read longest ago first."""
        read_already: set[tuple[str, ...]] = set()
        while True:
            todo = {name: read for name, read in self._details() if name not in read_already}
            if not todo or (not all_of_them and time.monotonic() < self._details_due):
                return
            name = min(todo, key=lambda candidate: self._read_at.get(candidate, 0.0))
            read_already.add(name)
            before_s = self._asker.cost_s
            todo[name]()
            self._read_at[name] = now = time.monotonic()
            if not all_of_them:
                self._details_due = max(self._details_due, now - 1.0) + (self._asker.cost_s - before_s) / DETAILS_SHARE

    def _details(self) -> Iterator[Detail]:
        yield ("databases",), partial(self._tried, None, self._read_databases)
        yield ("endpoint",), partial(self._tried, None, self._read_endpoint)
        if not self._is_alone:
            yield ("refusals",), partial(self._tried, None, self._read_refusals)
        for database in self._server.databases:
            yield from self._details_of(database)

    def _details_of(self, database: Database) -> Iterator[Detail]:
        def detail(read: Callable[..., None], *queue: Queue) -> Detail:
            name = (read.__name__, database.name, *(queue_.full_name for queue_ in queue))
            return name, partial(self._tried, database, partial(read, database, *queue))

        yield detail(self._read_definitions)
        yield detail(self._read_certificates)
        if database.is_owner:
            if (database.conversation_rows or 0) <= CONVERSATIONS_MAX:
                yield detail(self._read_conversations)
            else:
                database.conversations = None
            if database.transmission_rows or database.transmission:
                yield detail(self._read_transmission)
        full = sorted((queue for queue in database.queues if queue.rows), key=lambda queue: -(queue.rows or 0))
        for queue in full[:DETAILED_QUEUES]:
            yield detail(self._read_messages, queue)
        if any(queue.stands_still for queue in full[:DETAILED_QUEUES]):
            yield detail(self._read_sessions)
        for queue in full[:DETAILED_QUEUES]:
            if queue.stands_still or queue.is_growing or not queue.is_receive_enabled:
                yield detail(self._read_ready, queue)
                if queue.activation_procedure is not None:
                    yield detail(self._read_procedure, queue)

    def _tried(self, database: Database | None, read: Callable[[], None]) -> None:
        """Read something of the server or a database; go on where it is locked; forget a database that has gone."""
        try:
            read()
        except LockTimeout:
            subject = "the list of databases" if database is None else database.name
            words = f"{subject} is shown as it was: a session holds locks there for more than two seconds"
            self._locked[subject] = f"{words}; remedy: commit it, or see sys.dm_tran_locks"
        except NoDatabase as error:
            assert database is not None  # the server was not asked in one
            if self._only is not None and not self._read_at:
                raise
            database.queues.clear()
            database.transmission.clear()
            database.transmission_rows = None
            database.has_user = error_number(error) != NO_USER
            database.problems = [str(error)] if database.has_user else []

    def _read_databases(self) -> None:
        rows = self._asker.ask("", ["monitors/databases"], {}).get("monitors/databases", [])
        if self._only is not None:
            rows_wanted = [row for row in rows if str(row["database_name"]).lower() == self._only.lower()]
            if not rows_wanted and not self._read_at:
                names = [str(row["database_name"]) for row in rows]
                hint = nearest(self._only, names) if names else ""
                raise UsageFailure(f"{self._server.address} has no database {self._only!r} that the login sees{hint}")
            rows = rows_wanted
        by_id = {database.database_id: database for database in self._server.databases}
        self._server.databases = []
        for row in rows:
            name, number = str(row["database_name"]), int(row["database_id"])
            database = by_id.get(number)
            if database is None or database.name != name:
                database = Database(number, name, is_broker_enabled=False, broker_instance="")
            database.is_broker_enabled = bool(row["is_broker_enabled"])
            database.broker_instance = str(row["service_broker_guid"])
            self._server.databases.append(database)

    def _read_endpoint(self) -> None:
        rows = self._asker.ask("", ["doctor/endpoint"], {}).get("doctor/endpoint", [])
        endpoints = [Endpoint(str(row["endpoint_name"]), str(row["state"]), int(row["port"])) for row in rows]
        self._server.endpoint = endpoints[0] if endpoints else None
        self._server.certificates = self._certificates("")

    def _read_certificates(self, database: Database) -> None:
        database.certificates = self._certificates(database.name)

    def _certificates(self, database: str) -> list[Certificate]:
        """Return the certificate of each owner that ends last."""
        name = "monitors/certificates"
        rows = self._asker.ask(database, [name], {}).get(name, [])
        return [
            Certificate(
                str(row["certificate_name"]),
                str(row["purpose"]),
                f"{row['expiry_date']:%Y-%m-%d %H:%M}",
                int(row["hours_left"]),
            )
            for row in {(row["purpose"], row["principal_id"]): row for row in rows}.values()
        ]

    def _read_refusals(self) -> None:
        name = "monitors/broker_log"
        log = self._asker.ask("", [name], {}).get(name, [])
        since = self._local_time - _REFUSALS_LAST if self._local_time is not None else datetime.min
        self._server.refusals = _newest([row for row in log if row["LogDate"] >= since])

    def _read_definitions(self, database: Database) -> None:
        answers = self._asker.ask(database.name, ["monitors/queues", "monitors/services", "doctor/routes"], {})
        rows = answers.get("monitors/queues", [])
        database.services = {row["service_name"]: row["queue_id"] for row in answers.get("monitors/services", ())}
        if (routes := answers.get("doctor/routes")) is not None:
            database.routes = [_route(row) for row in routes if not row["is_expired"]]
        old = {queue.queue_id: queue for queue in database.queues}
        database.queues, database.problems, database.has_user = [], [], True
        for key in [key for key in self._tables if key[0] == database.database_id]:
            del self._tables[key]
        for row in rows:
            queue = _queue(row, database.services)
            if (before := old.get(queue.queue_id)) is not None:
                before.define(queue)
                queue = before
            queue.is_outdated = False
            database.queues.append(queue)
            self._tables[database.database_id, row["table_id"]] = queue
            database.is_owner = bool(row["is_owner"])
        if not database.is_owner and not database.is_system:
            lacking = f"not shown: conversations and transmission queue of {database.name}: they show to db_owner alone"
            database.problems.append(f"{lacking}; remedy: ALTER ROLE db_owner ADD MEMBER its user")

    def _read_conversations(self, database: Database) -> None:
        name, now = "monitors/conversations", time.monotonic()
        before = {earlier.kind: earlier for earlier in database.conversations or ()}
        database.conversations = []
        for row in self._asker.ask(database.name, [name], {}).get(name, []):
            conversations = Conversations(
                str(row["service_name"]),
                str(row["state_desc"]),
                bool(row["is_kept"]),
                int(row["conversations"]),
                str(row["first_lifetime"]),
                (row["first_lifetime"] - row["utc_time"]).total_seconds(),
                int(row["ends_soon"]),
                now,
            )
            conversations.follow(before.get(conversations.kind))
            database.conversations.append(conversations)

    def _read_transmission(self, database: Database) -> None:
        name = "monitors/transmission"
        rows = self._asker.ask(database.name, [name], {"Limit": str(LIMIT)}).get(name, [])
        database.transmission = [
            Waiting(
                str(row["from_service"] or ""),
                str(row["to_service"] or ""),
                row["to_broker_instance"],
                str(row["transmission_status"] or ""),
                row["messages"],
                row["oldest_s"],
            )
            for row in rows
        ]

    def _read_messages(self, database: Database, queue: Queue) -> None:
        name, variables = "monitors/messages", {"Queue": queue.full_name, "Limit": str(LIMIT)}
        rows = self._asker.ask(database.name, [name], variables, place=f"{database.name}.{queue.full_name}").get(name)
        if rows is not None:
            queue.statuses = {row["status"]: row["messages"] for row in rows}
            queue.is_capped = any(row["messages"] >= LIMIT for row in rows)
            queue.oldest_s = max((row["oldest_s"] for row in rows if row["oldest_s"] is not None), default=None)

    def _read_sessions(self, database: Database) -> None:
        rows = self._asker.ask(database.name, ["monitors/sessions"], {}).get("monitors/sessions")
        if rows is not None:
            database.sessions = [Session(**{**row, "is_receiving": bool(row["is_receiving"])}) for row in rows]

    def _read_ready(self, database: Database, queue: Queue) -> None:
        name, variables = "monitors/ready", {"Queue": queue.full_name, "Limit": str(LIMIT)}
        rows = self._asker.ask(database.name, [name], variables, place=f"{database.name}.{queue.full_name}").get(name)
        queue.first_message, queue.first_handle, queue.conversation_groups, queue.error = "", "", None, ""
        for row in rows or ():
            queue.first_message = f"{row['message_type_name']}, sequence {row['message_sequence_number']}"
            queue.first_handle = str(row["conversation_handle"])
            queue.conversation_groups = int(row["conversation_groups"])
            if (body := row["error_body"]) is not None:
                queue.error = dialog_pool.error_message_text(bytes(body))

    def _read_procedure(self, database: Database, queue: Queue) -> None:
        place = f"{database.name}.{queue.full_name}"
        name = "monitors/procedure"
        rows = self._asker.ask(database.name, [name], {"Queue": queue.full_name}, place=place).get(name)
        if rows and (text := rows[0]["definition"]) is not None:
            queue.procedure_receives = "receive" in text.lower() and queue.name.lower() in text.lower()
            queue.receive_hints = procedure_text.hints(text, queue.name)
            queue.procedure_hides_errors = procedure_text.hides_errors(text)
        name, variables = "observe/activation_errors", {"Database": database.name, "Queue": queue.plain_name}
        log = [
            row
            for row in self._asker.ask("", [name], variables).get(name, [])
            if dialog_pool.QUEUE_IS_OFF not in row["Text"]
        ]
        if queue.monitor is not None and queue.monitor.last_activated_s is not None and self._local_time is not None:
            launched = self._local_time - timedelta(seconds=queue.monitor.last_activated_s)
            log = [row for row in log if row["LogDate"] >= launched - _LOG_IS_BEHIND]
        queue.log = _newest(log)


def _newest(log: Rows) -> list[str]:
    """The last lines of the error log."""
    newest = sorted(log, key=lambda row: row["LogDate"])[-_LOG_LINES:]
    return [f"{row['LogDate']:%Y-%m-%d %H:%M:%S} {row['Text']}" for row in newest]


def _queue(row: Mapping[str, Any], services: Mapping[str, int]) -> Queue:
    principal = row["execute_as_principal_id"]
    instance = str(row["notification_instance"] or "").lower()
    return Queue(
        schema=str(row["schema_name"]),
        name=str(row["queue_name"]),
        queue_id=int(row["queue_id"]),
        is_receive_enabled=bool(row["is_receive_enabled"]),
        is_enqueue_enabled=bool(row["is_enqueue_enabled"]),
        is_retention_enabled=bool(row["is_retention_enabled"]),
        is_poison_message_handling_enabled=bool(row["is_poison_message_handling_enabled"]),
        is_activation_enabled=bool(row["is_activation_enabled"]),
        activation_procedure=row["activation_procedure"],
        procedure_exists=row["procedure_id"] is not None,
        execute_as="OWNER" if principal == _OWNER else row["execute_as_name"] if principal is not None else None,
        max_readers=row["max_readers"],
        notification=row["notification_name"],
        notification_service=row["notification_service"],
        notification_is_local=instance in ("current database", str(row["service_broker_guid"]).lower()),
        notification_service_exists=row["notification_service"] in services,
    )


def _route(row: Mapping[str, Any]) -> Route:
    service, instance = (str(row[name] or "") for name in ("remote_service_name", "broker_instance"))
    return Route(str(row["route_name"]), service, instance, str(row["address"]))


def _age(moment: datetime | None, row: Mapping[str, Any]) -> float | None:
    """Return how many seconds ago a moment was: in UTC or in the server's time, whichever does not lie ahead."""
    if moment is None or moment.year < 1901:
        return None
    ages = [(row[clock] - moment).total_seconds() for clock in ("local_time", "utc_time")]
    return max(0.0, min((age for age in ages if age > -1.0), default=0.0))
