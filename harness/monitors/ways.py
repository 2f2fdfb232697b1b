"""Say why messages to a service wait for transmission, as ssbdiagnose RUNTIME does between two services.

The sender's side says it by `transmission_status`. Where the server of the target is looked at too, its side is found
by the service and the broker instance, and what is wrong there comes first: it is the cause, and its statement can be
given in full.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.definitions.units import counted
from harness.files.script_text import literal, quoted
from harness.lab import statuses
from harness.monitors import state
from harness.monitors.state import Database, Queue, Route, Server, Waiting
from harness.monitors.wording import time_text

# Reason, evidence, remedy
Why = tuple[str, str, str]

_TCP = re.compile(r"TCP://(?P<host>\[[\w:.%]+\]|[\w.-]+):(?P<port>\d+)", re.IGNORECASE)

_REFUSAL = re.compile(r"login attempt.* failed with error: '(.*)'\.")
_NO_TARGET_BROKER = statuses.table()["9795"].text
_NO_ROUTE = ("9750", "9793")
# Status of a connection that did not come about or broke: a wrong address could be the reason.
_OF_CONNECTIONS = ("connect", "address", "receiving data", "sending data", "login protocol")


@dataclass(frozen=True)
class _Far:
    """The other side of messages that wait."""

    server: Server
    database: Database
    queue: Queue

    @property
    def place(self) -> str:
        return f"{self.server.name} {self.server.address}, {self.database.name}"


def of_way(server: Server, database: Database, waiting: Waiting, servers: Sequence[Server]) -> Why | None:
    """Return why messages to a service wait; None where they may just be on their way.

    `servers` are all that are looked at.
    """
    route = None if _is_here(database, waiting) else _route_to(database, waiting.to_service)
    evidence = _evidence(database, waiting, route)
    status = waiting.transmission_status
    if not status and waiting.oldest_s < state.THRESHOLD_S:
        return None
    if not database.is_broker_enabled:
        return "the broker of this database is disabled", evidence, statuses.enable(database.name)
    far = _far_side(database, waiting, route, servers)
    if far is not None and (why := _of_far_side(server, waiting, route, far)) is not None:
        reason, shown, remedy = why
        return reason, f"{evidence}; {shown}", remedy
    if far is None and (why := _of_identity(server, waiting, route, evidence, servers)) is not None:
        return why
    if not status:
        return _unacknowledged(server, database, evidence, route, far)
    reason, remedy = _of_status(server, database, waiting)
    return reason, evidence, remedy


def _of_status(server: Server, database: Database, waiting: Waiting) -> tuple[str, str]:
    """Return the reason that the transmission status gives, and the remedy."""
    understood = statuses.understand(waiting.transmission_status)
    if understood is None:
        return "the broker cannot send them", "see what transmission_status says; harness doctor examines a lab"
    if understood.message.number in _NO_ROUTE and (here := _in_this_instance(server, waiting)) is not None:
        return here
    return understood.reason, understood.remedy(**statuses.names(database.name, waiting.to_service))


def _in_this_instance(server: Server, waiting: Waiting) -> tuple[str, str] | None:
    """Return why no route leads to a service that a database of this server has, perhaps in other letters."""
    service, broker_instance = waiting.to_service, (waiting.to_broker_instance or "").lower()
    for database in server.databases:
        for name in database.services if broker_instance in ("", database.broker_instance.lower()) else ():
            if name == service:
                remedy = "CREATE ROUTE [AutoCreatedLocal] WITH ADDRESS = N'LOCAL';"
                return f"no route leads to the service, though {database.name} of this server has it", remedy
            if name.lower() == service.lower():
                remedy = f"END CONVERSATION of these, and BEGIN DIALOG ... TO SERVICE {literal(name)}"
                return f"{database.name} has the service {name}: names of services are compared byte by byte", remedy
    return None


def _evidence(database: Database, waiting: Waiting, route: Route | None) -> str:
    verb = "waits" if waiting.messages == 1 else "wait"
    evidence = f"{counted(waiting.messages, 'message')} {verb}, the oldest for {time_text(waiting.oldest_s)}"
    if _is_here(database, waiting):
        evidence += "; they are for a service of this database"
    elif database.routes is not None:
        evidence += f"; {'no' if route is None else 'a'} route names the service"
    if waiting.transmission_status:
        evidence += f"; transmission_status: {waiting.transmission_status}"
    return evidence


def _unacknowledged(server: Server, database: Database, evidence: str, route: Route | None, far: _Far | None) -> Why:
    off = [queue for queue in database.queues if not queue.is_enqueue_enabled]
    if off and route is None:
        return "a queue is switched off", evidence, f"ALTER QUEUE {off[0].full_name} WITH STATUS = ON;"
    reason = "they were sent, and no acknowledgement has come"
    if far is not None:
        evidence += f"; in {far.place}: broker and queue are enabled"
        return reason, evidence, f"see what the error log of {far.server.name} {far.server.address} says of the broker"
    host = match["host"] if route is not None and (match := _TCP.match(route.address)) else "<target's>"
    command = f"harness monitors --server {server.address.replace(':', ',')} --server {host}"
    return reason, evidence, f"look at both sides, its endpoint, the route back and the target's queue: {command}"


def _is_here(database: Database, waiting: Waiting) -> bool:
    """Messages that came from another database wait in the receiving one if its queue takes none."""
    broker_instance = waiting.to_broker_instance
    return broker_instance is not None and broker_instance.lower() == database.broker_instance.lower()


def _route_to(database: Database, service: str) -> Route | None:
    return next((route for route in database.routes or () if route.service == service), None)


def _far_side(database: Database, waiting: Waiting, route: Route | None, servers: Sequence[Server]) -> _Far | None:
    """Return where the service is; None where no server that is looked at has it, or several have.

    Both sides may have a service of that name: a route leads away from the sender's.
    """
    is_away = route is not None and _TCP.match(route.address) is not None
    broker_instance = (waiting.to_broker_instance or (route.broker_instance if route is not None else "")).lower()
    databases = [
        _Far(server, other, queue)
        for server in servers
        for other in server.databases
        if broker_instance in ("", other.broker_instance.lower()) and not (is_away and other is database)
        for queue in other.queues
        if queue.queue_id == other.services.get(waiting.to_service)
    ]
    return databases[0] if len(databases) == 1 else None


def _of_identity(
    server: Server, waiting: Waiting, route: Route | None, evidence: str, servers: Sequence[Server]
) -> Why | None:
    """Return what is wrong with the broker instance of a service that one of the servers has: its database has another
    one now, or a copy has the same. One where no route leads is another application's, and what cannot be reached has
    not changed."""
    broker_instance = (waiting.to_broker_instance or "").lower()
    address = _TCP.match(route.address) if route is not None else None
    having = [
        (holder, other) for holder in servers for other in holder.databases if waiting.to_service in other.services
    ]
    same = [(holder, other) for holder, other in having if other.broker_instance.lower() == broker_instance]
    if len(same) > 1:
        places = " and ".join(f"{holder.name} {other.name}" for holder, other in same)
        reason = "a copy of the target's database has the same service and broker identifier"
        copy = quoted(same[-1][1].name)
        remedy = f"in the copy, if it is {copy}: ALTER DATABASE {copy} SET NEW_BROKER WITH ROLLBACK IMMEDIATE;"
        return reason, f"{evidence}; service_broker_guid of {places} is {broker_instance}", remedy
    led_to = [(holder, other) for holder, other in having if _leads_to(holder, address, server)]
    is_reached = waiting.transmission_status in ("", _NO_TARGET_BROKER)
    if broker_instance and led_to and not same and is_reached:
        holder, other = led_to[0]
        reason = "the target's database has another broker identifier than these conversations, as after NEW_BROKER"
        present = f"{holder.name} {other.name} is {other.broker_instance.lower()}"
        evidence += f"; service_broker_guid of {present}, not {broker_instance}"
        end = (
            "DECLARE @h uniqueidentifier; WHILE 1 = 1 BEGIN SET @h = (SELECT TOP (1) e.conversation_handle FROM "
            f"sys.conversation_endpoints AS e WHERE e.far_service = {literal(waiting.to_service)} AND "
            f"e.far_broker_instance = '{broker_instance}'); IF @h IS NULL BREAK; END CONVERSATION @h WITH CLEANUP; END;"
        )
        return reason, evidence, f"begin new conversations; if those were for that database, they never go on: {end}"
    return None


def _leads_to(candidate: Server, address: re.Match[str] | None, sender: Server) -> bool:
    """Whether messages may go to a server: by a route to its endpoint's port, without one in the sender's instance."""
    if address is None:
        return candidate is sender
    endpoint = candidate.endpoint
    return candidate is not sender and endpoint is not None and endpoint.port == int(address["port"])


def _of_far_side(server: Server, waiting: Waiting, route: Route | None, far: _Far) -> Why | None:
    """Return what keeps the other side from taking messages, or from acknowledging them."""
    if (why := _refusing(far)) is not None or far.server is server:
        return why
    status = waiting.transmission_status.lower()
    if status and not any(words in status for words in _OF_CONNECTIONS):
        return None
    # What was sent and is not acknowledged needs a way back first: the refusal may be of somebody else.
    no_way_back = None if status else _no_way_back(server, waiting, far)
    return _not_reached(route, far) or no_way_back or _refused(waiting, far)


def _refusing(far: _Far) -> Why | None:
    place_words = f"in {far.place}: "
    if not far.database.is_broker_enabled:
        reason = "the broker of the target's database is disabled"
        return reason, f"{place_words}is_broker_enabled = 0", place_words + statuses.enable(far.database.name)
    if not far.queue.is_enqueue_enabled:
        remedy = f"{place_words}ALTER QUEUE {far.queue.full_name} WITH STATUS = ON;"
        return "the target's queue does not take messages", f"{place_words}is_enqueue_enabled = 0", remedy
    return None


def _not_reached(route: Route | None, far: _Far) -> Why | None:
    """The target's endpoint does not listen, or does elsewhere."""
    endpoint, place_words = far.server.endpoint, f"in {far.place}: "
    if endpoint is None:
        return None
    if endpoint.state != "STARTED":
        remedy = f"{place_words}ALTER ENDPOINT {quoted(endpoint.name)} STATE = STARTED;"
        return (
            "the Service Broker endpoint of the target is not started",
            f"{place_words}it is {endpoint.state}",
            remedy,
        )
    address = _TCP.match(route.address) if route is not None else None
    if route is None or address is None or int(address["port"]) == endpoint.port:
        return None
    evidence = (
        f"{quoted(route.name)} leads to {route.address}; {place_words}the endpoint listens on port {endpoint.port}"
    )
    new = f"TCP://{address['host']}:{endpoint.port}"
    remedy = f"unless that port is forwarded: ALTER ROUTE {quoted(route.name)} WITH ADDRESS = {literal(new)};"
    return "the route leads to a port where the target does not listen", evidence, remedy


def _refused(waiting: Waiting, far: _Far) -> Why | None:
    """The target's server has refused another, which its error log says: nothing else knows why."""
    for line in reversed(far.server.refusals):
        refusal = _REFUSAL.search(line)
        if refusal is not None and (understood := statuses.understand(refusal[1])) is not None:
            reason = f"the target's server has refused a connection: {understood.reason}"
            remedy = understood.remedy(**statuses.names(far.database.name, waiting.to_service))
            return reason, f"its error log: {line}", f"in {far.server.name} {far.server.address}: {remedy}"
    return None


def _no_way_back(server: Server, waiting: Waiting, far: _Far) -> Why | None:
    """The target has what was sent, and its acknowledgements find no way."""
    routes = far.database.routes
    if routes is None or any(
        route.service in (waiting.from_service, "") and route.address.upper() != "LOCAL" for route in routes
    ):
        return None
    port = server.endpoint.port if server.endpoint is not None else "<port>"
    new = f"ADDRESS = N'TCP://<host of {server.name}>:{port}'"
    remedy = f"in {far.place}: CREATE ROUTE [<name>] WITH SERVICE_NAME = {literal(waiting.from_service)}, {new};"
    reason = "no route leads back from the target, so no acknowledgement comes"
    return reason, f"in {far.place}: no route names {waiting.from_service}", remedy
