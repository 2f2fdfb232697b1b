"""CREATE, ALTER and DROP of routes, remote service bindings, priorities and event notifications."""

from __future__ import annotations

from harness.embedded.broker import system
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.objects import EventNotification, Priority, RemoteServiceBinding, Route
from harness.embedded.broker.routing import parse_address
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND

LIFETIME_MAX_S = 2**31 - 1
DEFAULT_PRIORITY = 5


class LinkStatements(Catalog):
    # ROUTE

    def create_route(
        self,
        tx: Transaction,
        name: str,
        *,
        service_name: str | None = None,
        broker_instance: str | None = None,
        lifetime_s: int | None = None,
        address: str,
        mirror_address: str | None = None,
        owner: str = "dbo",
    ) -> None:
        self._refuse_existing(self.routes, name)
        instance = broker_instance.upper() if broker_instance is not None else None
        expires = self._expiry(name, lifetime_s)
        created = Route(name, self._new_id("route"), service_name, instance, expires, address, mirror_address, owner)
        self._check_route(created)
        self._add(tx, self.routes, name, created)
        self._store_route(tx, created)

    def alter_route(
        self,
        tx: Transaction,
        name: str,
        *,
        service_name: str | None = None,
        broker_instance: str | None = None,
        lifetime_s: int | None = None,
        address: str | None = None,
        mirror_address: str | None = None,
    ) -> None:
        """None leaves a clause as it is."""
        route = self._find(self.routes, "alter", "route", name)
        for attribute, value in (
            ("remote_service_name", service_name),
            ("broker_instance", broker_instance.upper() if broker_instance is not None else None),
            ("lifetime", self._expiry(name, lifetime_s)),
            ("address", address),
            ("mirror_address", mirror_address),
        ):
            if value is not None:
                self._set(tx, route, attribute, value)
        self._check_route(route)
        self._store_route(tx, route)

    def drop_route(self, tx: Transaction, name: str) -> None:
        route = self._find(self.routes, "drop", "route", name)
        self._remove(tx, self.routes, name)
        self._write(tx, "route", route.route_id, None)
        self._refresh(tx)

    def add_auto_created_route(self, tx: Transaction) -> None:
        """Every new database has a route to its own instance; its id is in the users' range."""
        self.create_route(tx, system.AUTO_CREATED_LOCAL, address="LOCAL")

    def _expiry(self, name: str, lifetime_s: int | None) -> int | None:
        if lifetime_s is None:
            return None
        if not 0 < lifetime_s <= LIFETIME_MAX_S:
            raise SqlServerError(9746, name)
        return self.engine.clock.utc_ns() + lifetime_s * SECOND

    @staticmethod
    def _check_route(route: Route) -> None:
        address = route.address.upper()
        for clause, value in (("SERVICE_NAME", route.remote_service_name), ("ADDRESS", route.address)):
            if value == "":
                raise SqlServerError(9659, clause, route.name)
        if route.broker_instance is not None and route.remote_service_name is None:
            raise SqlServerError(9662, route.name)
        if address == "TRANSPORT" and route.remote_service_name is not None:
            raise SqlServerError(9745, route.name)
        if address not in {"LOCAL", "TRANSPORT"}:
            parse_address(route.address, route.name)
        if route.mirror_address is None:
            return
        if route.remote_service_name is None or route.broker_instance is None:
            raise SqlServerError(9661, route.name)
        if address in {"LOCAL", "TRANSPORT"}:
            raise SqlServerError(9743, "ADDRESS", route.name)
        if route.mirror_address == route.address:
            raise SqlServerError(9747, route.name)

    def _store_route(self, tx: Transaction, route: Route) -> None:
        row = (
            route.name,
            route.remote_service_name,
            route.broker_instance,
            route.lifetime,
            route.address,
            route.mirror_address,
            route.owner,
        )
        self._write(tx, "route", route.route_id, row)
        self._refresh(tx)

    # REMOTE SERVICE BINDING

    def create_remote_service_binding(
        self, tx: Transaction, name: str, *, to_service: str, user: str, anonymous: bool = False, owner: str = "dbo"
    ) -> None:
        self._refuse_existing(self.remote_service_bindings, name)
        if self.binding_for(to_service) is not None:
            raise SqlServerError(9619, name, to_service)
        self._require_user(user)
        created = RemoteServiceBinding(name, self._new_id("remote_service_binding"), to_service, user, anonymous, owner)
        self._add(tx, self.remote_service_bindings, name, created)
        self._store_binding(tx, created)

    def alter_remote_service_binding(
        self, tx: Transaction, name: str, *, user: str | None = None, anonymous: bool | None = None
    ) -> None:
        binding = self._find(self.remote_service_bindings, "alter", "remote service binding", name)
        if user is not None:
            self._require_user(user)
            self._set(tx, binding, "user", user)
        if anonymous is not None:
            self._set(tx, binding, "is_anonymous_on", anonymous)
        self._store_binding(tx, binding)

    def drop_remote_service_binding(self, tx: Transaction, name: str) -> None:
        binding = self._find(self.remote_service_bindings, "drop", "remote service binding", name)
        self._remove(tx, self.remote_service_bindings, name)
        self._write(tx, "remote_service_binding", binding.remote_service_binding_id, None)
        self._refresh(tx)

    def binding_for(self, service: str) -> RemoteServiceBinding | None:
        for binding in self.remote_service_bindings.values():
            if binding.remote_service_name == service:
                return binding
        return None

    def _require_user(self, user: str) -> None:
        if user.lower() != "dbo" and user.lower() not in self.principals.users:
            raise SqlServerError(15151, "find", "user", user)

    def _store_binding(self, tx: Transaction, binding: RemoteServiceBinding) -> None:
        row = (binding.name, binding.remote_service_name, binding.user, binding.is_anonymous_on, binding.owner)
        self._write(tx, "remote_service_binding", binding.remote_service_binding_id, row)
        self._refresh(tx)

    # BROKER PRIORITY

    def create_priority(
        self,
        tx: Transaction,
        name: str,
        *,
        contract: str | None = None,
        local_service: str | None = None,
        remote_service: str | None = None,
        level: int = DEFAULT_PRIORITY,
    ) -> None:
        """None stands for ANY."""
        self._refuse_existing(self.priorities, name)
        created = Priority(name, self._new_id("priority"), contract, local_service, remote_service, level)
        self._check_priority(created)
        self._add(tx, self.priorities, name, created)
        self._store_priority(tx, created)

    def alter_priority(self, tx: Transaction, name: str, **changes: str | int | None) -> None:
        """`changes`: any of the keywords of `create_priority`."""
        priority = self._find(self.priorities, "alter", "broker priority", name)
        for attribute, value in changes.items():
            self._set(tx, priority, attribute, value)
        self._check_priority(priority)
        self._store_priority(tx, priority)

    def drop_priority(self, tx: Transaction, name: str) -> None:
        priority = self._find(self.priorities, "drop", "broker priority", name)
        self._remove(tx, self.priorities, name)
        self._write(tx, "priority", priority.priority_id, None)

    def _check_priority(self, priority: Priority) -> None:
        if priority.contract is not None:
            self._find(self.contracts, "find", "service contract", priority.contract)
        if priority.local_service is not None:
            self._find(self.services, "find", "service", priority.local_service)

    def _store_priority(self, tx: Transaction, priority: Priority) -> None:
        row = (priority.name, priority.contract, priority.local_service, priority.remote_service, priority.level)
        self._write(tx, "priority", priority.priority_id, row)

    def priority_for(self, contract: str, local_service: str, remote_service: str) -> int:
        """The priority of a new endpoint: the most specific match decides, contract before local before remote."""
        if not self.priorities:
            return DEFAULT_PRIORITY
        best: tuple[tuple[bool, bool, bool], int] | None = None
        for priority in self.priorities.values():
            names = (priority.contract, priority.local_service, priority.remote_service)
            here = (contract, local_service, remote_service)
            if all(name is None or name == other for name, other in zip(names, here, strict=True)):
                rank = (names[0] is not None, names[1] is not None, names[2] is not None)
                if best is None or rank > best[0]:
                    best = (rank, priority.level)
        return DEFAULT_PRIORITY if best is None else best[1]

    # EVENT NOTIFICATION

    def create_event_notification(
        self, tx: Transaction, name: str, *, queue: str, event: str, service: str, broker_instance: str | None = None
    ) -> EventNotification:
        """`broker_instance` None stands for 'current database'."""
        watched = self._find(self.queues, "find", "service queue", queue, queue.lower())
        self._refuse_existing(watched.notifications, name, key=name.lower())
        if event == "QUEUE_ACTIVATION" and watched.is_activation_enabled:
            raise SqlServerError(9718, watched.name)
        instance = self._this.service_broker_guid if broker_instance is None else broker_instance.upper()
        created = EventNotification(name, self.new_object_id(tx), watched, event, service, instance)
        self._add(tx, watched.notifications, name.lower(), created)
        self.store_notification(tx, created)
        self._refresh(tx)
        return created

    def drop_event_notification(self, tx: Transaction, name: str, *, queue: str) -> None:
        watched = self._find(self.queues, "find", "service queue", queue, queue.lower())
        notification = self._find(watched.notifications, "drop", "event notification", name, name.lower())
        self._remove(tx, watched.notifications, name.lower())
        self._write(tx, "event_notification", notification.object_id, None)
        self._refresh(tx)

    def store_notification(self, tx: Transaction, notification: EventNotification) -> None:
        row = (
            notification.name,
            notification.queue.object_id,
            notification.event,
            notification.service,
            notification.broker_instance,
            notification.conversation_handle,
        )
        self._write(tx, "event_notification", notification.object_id, row)
