"""Service Broker's DDL, compiled to calls of the broker's catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.embedded.broker.objects import ActivationOptions, QueueOptions
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.execution.procedures import compiled
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.syntax import broker_objects as nodes


def _ddl(work: Callable[[Frame, Transaction], None]) -> Step:
    """Names of queues may mean something else afterwards: plans are made anew."""

    def change(frame: Frame, tx: Transaction) -> None:
        work(frame, tx)
        frame.instance.version += 1
        frame.session.row_count = 0

    return writing(change)


def _owner(frame: Frame, given: str) -> dict[str, Any]:
    return {"owner": given or frame.session.user_name()}


def create_message_type(node: nodes.CreateMessageType, scope: Scope) -> Step:
    return _ddl(
        lambda frame, tx: frame.database.create_message_type(
            tx, node.name, validation=node.validation, **_owner(frame, node.owner)
        )
    )


def alter_message_type(node: nodes.AlterMessageType, scope: Scope) -> Step:
    return _ddl(lambda frame, tx: frame.database.alter_message_type(tx, node.name, validation=node.validation))


def create_contract(node: nodes.CreateContract, scope: Scope) -> Step:
    return _ddl(
        lambda frame, tx: frame.database.create_contract(
            tx, node.name, usages=node.messages, **_owner(frame, node.owner)
        )
    )


def create_queue(node: nodes.CreateQueue, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, name = frame.instance.located(node.name, frame.database)
        if frame.instance.table(node.name, frame.database) or frame.instance.procedure(node.name, frame.database):
            raise SqlServerError(2714, name)
        database.create_queue(tx, schema, name, _queue_options(frame, node.clauses))

    return _ddl(work)


def alter_queue(node: nodes.AlterQueue, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, name = frame.instance.located(node.name, frame.database)
        database.alter_queue(tx, schema, name, _queue_options(frame, node.clauses))

    return _ddl(work)


def _queue_options(frame: Frame, clauses: nodes.QueueClauses) -> QueueOptions:
    activation: ActivationOptions | None = None
    if clauses.has_activation:
        activation = ActivationOptions(
            status=clauses.activation_status,
            procedure=_procedure_name(frame, clauses.procedure) if clauses.procedure else None,
            max_queue_readers=clauses.max_queue_readers,
            execute_as=frame.session.user_name() if clauses.execute_as == "SELF" else clauses.execute_as,
            drop=clauses.drop_activation,
        )
    return QueueOptions(
        status=clauses.status,
        retention=clauses.retention,
        activation=activation,
        poison_message_handling=clauses.poison_message_handling,
    )


def _procedure_name(frame: Frame, parts: tuple[str, ...]) -> str:
    """The three-part name that sys.service_queues shows. The procedure need not exist yet."""
    database, schema, name = frame.instance.located(parts, frame.database)
    if name.startswith("#"):
        raise SqlServerError(9742)
    procedure = frame.instance.procedure(parts, frame.database)
    if procedure is not None and compiled(procedure).names:
        raise SqlServerError(9653)
    return ".".join(f"[{part.replace(']', ']]')}]" for part in (database.name, schema, name))


def _queue_name(frame: Frame, parts: tuple[str, ...]) -> str:
    _, schema, name = frame.instance.located(parts, frame.database)
    return f"{schema}.{name}"


def create_service(node: nodes.CreateService, scope: Scope) -> Step:
    return _ddl(
        lambda frame, tx: frame.database.create_service(
            tx, node.name, queue=_queue_name(frame, node.queue), contracts=node.contracts, **_owner(frame, node.owner)
        )
    )


def alter_service(node: nodes.AlterService, scope: Scope) -> Step:
    return _ddl(
        lambda frame, tx: frame.database.alter_service(
            tx,
            node.name,
            queue=_queue_name(frame, node.queue) if node.queue else None,
            add_contracts=node.add,
            drop_contracts=node.drop,
        )
    )


ROUTE_ARGUMENTS = {
    "SERVICE_NAME": "service_name",
    "BROKER_INSTANCE": "broker_instance",
    "LIFETIME": "lifetime_s",
    "ADDRESS": "address",
    "MIRROR_ADDRESS": "mirror_address",
}


def _route_arguments(node: nodes.RouteOptions) -> dict[str, Any]:
    return {ROUTE_ARGUMENTS[name]: value for name, value in node.options.items()}


def create_route(node: nodes.CreateRoute, scope: Scope) -> Step:
    arguments = _route_arguments(node)
    return _ddl(lambda frame, tx: frame.database.create_route(tx, node.name, **arguments, **_owner(frame, node.owner)))


def alter_route(node: nodes.AlterRoute, scope: Scope) -> Step:
    arguments = _route_arguments(node)
    return _ddl(lambda frame, tx: frame.database.alter_route(tx, node.name, **arguments))


def create_remote_service_binding(node: nodes.CreateRemoteServiceBinding, scope: Scope) -> Step:
    return _ddl(
        lambda frame, tx: frame.database.create_remote_service_binding(
            tx,
            node.name,
            to_service=node.service,
            user=node.user,
            anonymous=node.anonymous,
            **_owner(frame, node.owner),
        )
    )


def alter_remote_service_binding(node: nodes.AlterRemoteServiceBinding, scope: Scope) -> Step:
    return _ddl(
        lambda frame, tx: frame.database.alter_remote_service_binding(
            tx, node.name, user=node.user, anonymous=node.anonymous
        )
    )


PRIORITY_ARGUMENTS = {
    "CONTRACT_NAME": "contract",
    "LOCAL_SERVICE_NAME": "local_service",
    "REMOTE_SERVICE_NAME": "remote_service",
    "PRIORITY_LEVEL": "level",
}


def broker_priority(node: nodes.BrokerPriority, scope: Scope) -> Step:
    given: dict[str, Any] = {PRIORITY_ARGUMENTS[name]: value for name, value in node.options.items()}

    def work(frame: Frame, tx: Transaction) -> None:
        if node.verb == "ALTER":
            frame.database.alter_priority(tx, node.name, **given)
        else:
            frame.database.create_priority(tx, node.name, **given)

    return _ddl(work)


def create_event_notification(node: nodes.CreateEventNotification, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        current = node.broker_instance.lower() == "current database"
        for event in node.events:
            frame.database.create_event_notification(
                tx,
                node.name,
                queue=_queue_name(frame, node.queue),
                event=event,
                service=node.service,
                broker_instance=None if current else node.broker_instance,
            )

    return _ddl(work)


def drop_event_notification(node: nodes.DropEventNotification, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        for name in node.names:
            frame.database.drop_event_notification(tx, name, queue=_queue_name(frame, node.queue))

    return _ddl(work)


def _drop_queue(frame: Frame, tx: Transaction, name: tuple[str, ...]) -> None:
    database, schema, queue = frame.instance.located(name, frame.database)
    database.drop_queue(tx, schema, queue)


DROPS: dict[str, Callable[[Frame, Transaction, tuple[str, ...]], None]] = {
    "MESSAGE TYPE": lambda frame, tx, name: frame.database.drop_message_type(tx, name[0]),
    "CONTRACT": lambda frame, tx, name: frame.database.drop_contract(tx, name[0]),
    "QUEUE": _drop_queue,
    "SERVICE": lambda frame, tx, name: frame.database.drop_service(tx, name[0]),
    "ROUTE": lambda frame, tx, name: frame.database.drop_route(tx, name[0]),
    "REMOTE SERVICE BINDING": lambda frame, tx, name: frame.database.drop_remote_service_binding(tx, name[0]),
    "BROKER PRIORITY": lambda frame, tx, name: frame.database.drop_priority(tx, name[0]),
}


def drop_broker_object(node: nodes.DropBrokerObject, scope: Scope) -> Step:
    drop = DROPS[node.kind]
    return _ddl(lambda frame, tx: drop(frame, tx, node.name))
