"""Routing: finds the far side of a conversation.

The order of matching is the manual's ("Service Broker Routing"): service and instance; service without instance;
service with any instance if the dialog names none; a route for the broker configuration service (then the message is
delayed); a route with neither; the instance itself, if the dialog names a broker of this server. Messages sent here use
sys.routes of the sending database; messages from the network use those of msdb.
"""

from collections.abc import Callable

from harness.embedded.broker import system_objects
from harness.embedded.broker.broker_link import BrokerLink
from harness.embedded.broker.database import (
    ConversationEndpoint,
    Database,
    Databases,
    Delayed,
    Destination,
    Local,
    Remote,
    Unconfigured,
    Unknown,
)
from harness.embedded.broker.definitions import Route
from harness.embedded.broker.dialog_security import DialogSecurity
from harness.embedded.broker.frames import DialogHeader
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Clock

BROKER_CONFIGURATION = "SQL/ServiceBroker/BrokerConfiguration"


def status_text(number: int, *arguments: object) -> str:
    """Make the text of an error as transmission_status shows it."""
    return SqlServerError(number, *arguments).text


def parse_address(address: str, route: str = "") -> tuple[str, int]:
    """Parse `TCP://host:port`."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme.upper() != "TCP" or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SqlServerError(9744, "ADDRESS", route)
    return host.strip("[]"), int(port)


class Router:
    """Finds destinations, and the headers of messages on the way there.

    An endpoint keeps its destination until something that routing depends on changes."""

    def __init__(
        self,
        databases: Databases,
        link: BrokerLink,
        security: DialogSecurity,
        clock: Clock,
        sending_problem: Callable[[ConversationEndpoint, Local], str],
    ) -> None:
        self.databases = databases
        self.link = link
        self._security = security
        # Returns why a dialog may not reach a service of this instance; empty if it may.
        self._sending_problem = sending_problem
        self._changes = databases.changes
        self._clock = clock

    def destination(self, endpoint: ConversationEndpoint) -> Destination:
        """Find where messages of this endpoint go."""
        outgoing, version = endpoint.outgoing, self._changes.version
        if outgoing.routing_version == version and outgoing.destination is not None:
            return outgoing.destination
        terms, database = endpoint.terms, endpoint.database
        destination = self.classify(
            database,
            terms.far_service,
            endpoint.far_broker_instance,
            terms.conversation_id,
            is_reply=not terms.is_initiator,
        )
        if isinstance(destination, Remote):
            insecure = self._security.prepare(endpoint)
            if (insecure or not terms.is_encrypted) and self._can_ask_for_binding(endpoint):
                destination = Unconfigured(status_text(9770), system_objects.MISSING_BINDING)
            elif insecure:
                destination = Delayed(insecure)
        elif isinstance(destination, Local) and terms.is_initiator:
            refused = self._sending_problem(endpoint, destination)
            destination = Delayed(refused) if refused else destination
        outgoing.destination, outgoing.routing_version = destination, version
        if isinstance(destination, Delayed) or any(
            route.lifetime is not None for route in database.catalog.routes.values()
        ):
            outgoing.routing_version = -1  # time alone may change it: a route expires, a delay ends
        return destination

    @staticmethod
    def _can_ask_for_binding(endpoint: ConversationEndpoint) -> bool:
        """ "If a remote service binding is not available, Service Broker checks the routing table for the Broker
        Configuration Notice service." And "if ENCRYPTION=OFF, the dialog will proceed after the BCN ends the
        MissingRemoteServiceBinding conversation": https://learn.microsoft.com/previous-versions/sql/sql-server-2008/ms345284
        """
        database, terms = endpoint.database, endpoint.terms
        catalog = database.catalog
        if not terms.is_encrypted and (
            endpoint.first_is_acknowledged or terms.far_service in database.unbound_services
        ):
            return False
        return (
            terms.is_initiator
            and not terms.is_system
            and catalog.binding_for(terms.far_service) is None
            and any(route.remote_service_name == BROKER_CONFIGURATION for route in catalog.routes.values())
        )

    def classify(
        self, database: Database, service: str, instance: str | None, conversation_id: str, *, is_reply: bool = False
    ) -> Destination:
        """Find a service by the routes of a database."""
        if not database.catalog.is_broker_enabled:
            return Delayed(status_text(9791))
        if is_reply and instance is not None:
            # "A target's reply goes back by the initiator's guid if it is in this instance."
            local = self.databases.of_broker(instance)
            if local is not None:
                return self._in_database(local, service)
        route = self._match(database, service, instance, conversation_id)
        if route is None:
            if instance is not None and self.databases.of_broker(instance) is not None:
                return self._local(database, service, instance)
            return Delayed(status_text(9750))
        return self._by_route(database, route, service, instance)

    def arriving(self, service: str, instance: str | None, conversation_id: str) -> Destination:
        """Find where a message from the network goes, by the routes of msdb."""
        return self.classify(self.databases["msdb"], service, instance, conversation_id)

    def back(self, header: DialogHeader, conversation_id: str) -> Destination:
        """Find the sender of a message from the network, by the routes of the database that the message was for."""
        database = self.databases.of_broker(header.to_broker_instance or "")
        if database is None:
            local = self.arriving(header.to_service, None, conversation_id)
            database = local.database if isinstance(local, Local) else self.databases["msdb"]
        return self.classify(database, header.from_service, header.from_broker_instance, conversation_id)

    def _by_route(self, database: Database, route: Route, service: str, instance: str | None) -> Destination:
        address = route.address.upper()
        if route.remote_service_name == BROKER_CONFIGURATION != service:
            return Unconfigured(status_text(9770), system_objects.MISSING_ROUTE)
        if address == "LOCAL":
            return self._local(database, service, instance)
        if not self.link.is_open:
            return Delayed(status_text(9748))
        try:
            return Remote(parse_address(service if address == "TRANSPORT" else route.address))
        except SqlServerError:
            return Delayed(status_text(9785, service))

    def _match(self, database: Database, service: str, instance: str | None, conversation_id: str) -> Route | None:
        now_ns = self._clock.utc_ns()
        routes = [
            route for route in database.catalog.routes.values() if route.lifetime is None or now_ns < route.lifetime
        ]
        matches = [route for route in routes if route.remote_service_name == service]
        levels = (
            [route for route in matches if route.broker_instance is not None and route.broker_instance == instance],
            [route for route in matches if route.broker_instance is None],
            [route for route in matches if instance is None],
            [route for route in routes if route.remote_service_name == BROKER_CONFIGURATION],
            [route for route in routes if route.remote_service_name is None and route.broker_instance is None],
        )
        for candidates in levels:
            if candidates:
                return self._prefer(database, candidates, service, instance, conversation_id)
        return None

    def _prefer(
        self, database: Database, candidates: list[Route], service: str, instance: str | None, conversation_id: str
    ) -> Route:
        """Prefer a mirrored route, then LOCAL if the service is here, an address, TRANSPORT; spread over equals."""

        def rank(route: Route) -> int:
            if route.mirror_address is not None:
                return 0
            address = route.address.upper()
            if address == "LOCAL":
                return 1 if isinstance(self._local(database, service, instance), Local) else 4
            return 3 if address == "TRANSPORT" else 2

        best = min(rank(route) for route in candidates)
        equals = [route for route in candidates if rank(route) == best]
        return equals[int(conversation_id[:8], 16) % len(equals)]

    def _local(self, database: Database, service: str, instance: str | None) -> Destination:
        if instance is not None:
            local = self.databases.of_broker(instance)
            return self._in_database(local, service) if local is not None else Delayed(status_text(9795))
        databases = [other for other in self.databases.values() if other is not database]
        for candidate in [database, *databases]:
            if candidate.catalog.is_broker_enabled and service in candidate.catalog.services:
                return Local(candidate, candidate.catalog.services[service])
        return Delayed(status_text(9793))

    @staticmethod
    def _in_database(database: Database, service: str) -> Destination:
        if not database.catalog.is_broker_enabled:
            return Delayed(status_text(28012, SqlServerError(28013).text))
        if service not in database.catalog.services:
            return Unknown(service)
        return Local(database, database.catalog.services[service])

    def header(self, endpoint: ConversationEndpoint) -> DialogHeader:
        """Return the header of the endpoint's messages, which is made once."""
        outgoing = endpoint.outgoing
        header = outgoing.header
        if (
            header is None
            or header.to_broker_instance != endpoint.far_broker_instance
            or (header.key_exchange is not None and endpoint.first_is_acknowledged)
        ):
            terms = endpoint.terms
            header = outgoing.header = DialogHeader(
                terms.far_service,
                endpoint.far_broker_instance,
                terms.service_name,
                endpoint.database.catalog.service_broker_guid,
                terms.contract.name,
                terms.lifetime,
                terms.is_encrypted,
                None if endpoint.first_is_acknowledged else outgoing.key_exchange,
            )
        return header
