"""Service Broker's catalog: sys.service_queues, sys.services, sys.routes, ..."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.embedded.broker.definitions import Principals
from harness.embedded.broker.queues import Queue
from harness.embedded.tsql.catalog.object_views import is_ms_shipped, object_columns, schema_id
from harness.embedded.tsql.catalog.view import (
    Context,
    View,
    ViewColumn,
    attribute,
    bit,
    char,
    column,
    datetime,
    int_,
    nvarchar,
    of_first,
    smallint,
    sysname,
    tinyint,
)
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns

DBO = 1
OWNER = -2  # execute_as_principal_id of EXECUTE AS OWNER


def _execute_as(row: tuple[Queue, Principals]) -> int | None:
    """ "NULL by default or if EXECUTE AS CALLER; ID of the specified principal if EXECUTE AS SELF or a principal; -2 =
    EXECUTE AS OWNER.\""""
    queue, principals = row
    if queue.execute_as is None:
        return None
    if queue.execute_as.upper() == "OWNER":
        return OWNER
    return principals.principal_id(queue.execute_as)


def _queue_columns() -> list[ViewColumn]:
    """Columns of (queue, principals): those of sys.objects, which a queue has under other names, and its own."""
    own: dict[str, Any] = {
        "schema_id": lambda queue: schema_id(queue.schema),
        "parent_object_id": lambda queue: 0,
        "type": lambda queue: "SQ",
        "type_desc": lambda queue: "SERVICE_QUEUE",
        "is_ms_shipped": lambda queue: is_ms_shipped(queue.object_id),
    }
    before = [
        *(item._replace(value=own.get(item.name, item.value)) for item in object_columns()),
        attribute("max_readers", smallint),
        attribute("activation_procedure", nvarchar(776)),
    ]
    after = [
        column("is_activation_enabled", bit, lambda queue: int(queue.is_activation_enabled), nullable=False),
        column("is_receive_enabled", bit, lambda queue: int(queue.is_receive_enabled), nullable=False),
        column("is_enqueue_enabled", bit, lambda queue: int(queue.is_enqueue_enabled), nullable=False),
        column("is_retention_enabled", bit, lambda queue: int(queue.is_retention_enabled), nullable=False),
        column("is_poison_message_handling_enabled", bit, lambda q: int(q.is_poison_message_handling_enabled)),
    ]
    execute_as = column("execute_as_principal_id", int_, _execute_as)
    return [*map(of_first, before), execute_as, *map(of_first, after)]


def _queues(context: Context) -> list[tuple[Queue, Principals]]:
    catalog = context.database.catalog
    return [(queue, catalog.principals) for queue in catalog.queues.values()]


def _usages(context: Context) -> Iterator[tuple[Any, Any]]:
    for contract in context.database.catalog.contracts.values():
        for usage in contract.usages.values():
            yield contract, usage


def _contract_usages(context: Context) -> Iterator[tuple[Any, Any]]:
    for service in context.database.catalog.services.values():
        for contract in service.contracts.values():
            yield service, contract


def _principal(context: Context, name: str) -> int | None:
    user = context.database.catalog.principals.users.get(name.lower())
    return DBO if name.lower() == "dbo" else user.principal_id if user is not None else None


def _bindings(context: Context) -> Iterator[tuple[Any, int | None]]:
    for binding in context.database.catalog.remote_service_bindings.values():
        yield binding, _principal(context, binding.user)


def _priorities(context: Context) -> Iterator[tuple[Any, int | None, int | None]]:
    database = context.database
    for priority in database.catalog.priorities.values():
        contract = database.catalog.contracts.get(priority.contract or "")
        service = database.catalog.services.get(priority.local_service or "")
        yield priority, contract and contract.service_contract_id, service and service.service_id  # type: ignore[misc]


VALIDATIONS = {"N": "BINARY", "E": "EMPTY", "X": "XML"}  # as on a live server; the manual says NONE for N

VIEWS = [
    View(
        "service_queues",
        _queue_columns(),
        _queues,
    ),
    View(
        "services",
        [
            attribute("name", sysname, nullable=False),
            attribute("service_id", int_, nullable=False),
            column("principal_id", int_, DBO),
            attribute("service_queue_id", int_, "queue.object_id", nullable=False),
        ],
        lambda context: list(context.database.catalog.services.values()),
    ),
    View(
        "service_contracts",
        [
            attribute("name", sysname, nullable=False),
            attribute("service_contract_id", int_, nullable=False),
            column("principal_id", int_, DBO),
        ],
        lambda context: list(context.database.catalog.contracts.values()),
    ),
    View(
        "service_message_types",
        [
            attribute("name", sysname, nullable=False),
            attribute("message_type_id", int_, nullable=False),
            column("principal_id", int_, DBO),
            column("validation", char(2), lambda item: item.validation.value),
            column("validation_desc", nvarchar(60), lambda item: VALIDATIONS[item.validation.value]),
            column("xml_collection_id", int_, None),
        ],
        lambda context: list(context.database.catalog.message_types.values()),
    ),
    View(
        "service_contract_message_usages",
        [
            column("service_contract_id", int_, lambda row: row[0].service_contract_id, nullable=False),
            column("message_type_id", int_, lambda row: row[1].message_type.message_type_id, nullable=False),
            column("is_sent_by_initiator", bit, lambda row: int(row[1].is_sent_by_initiator), nullable=False),
            column("is_sent_by_target", bit, lambda row: int(row[1].is_sent_by_target), nullable=False),
        ],
        _usages,
    ),
    View(
        "service_contract_usages",
        [
            column("service_id", int_, lambda row: row[0].service_id, nullable=False),
            column("service_contract_id", int_, lambda row: row[1].service_contract_id, nullable=False),
        ],
        _contract_usages,
    ),
    View(
        "routes",
        [
            attribute("name", sysname, nullable=False),
            attribute("route_id", int_, nullable=False),
            column("principal_id", int_, DBO),
            attribute("remote_service_name", nvarchar(256)),
            attribute("broker_instance", nvarchar(128)),
            column("lifetime", datetime, lambda route: datetime_from_utc_ns(route.lifetime)),
            attribute("address", nvarchar(256)),
            attribute("mirror_address", nvarchar(256)),
        ],
        lambda context: list(context.database.catalog.routes.values()),
    ),
    View(
        "remote_service_bindings",
        [
            column("name", sysname, lambda row: row[0].name, nullable=False),
            column("remote_service_binding_id", int_, lambda row: row[0].remote_service_binding_id, nullable=False),
            column("principal_id", int_, DBO),
            column("remote_service_name", nvarchar(256), lambda row: row[0].remote_service_name),
            column("service_contract_id", int_, 0, nullable=False),
            column("remote_principal_id", int_, lambda row: row[1]),
            column("is_anonymous_on", bit, lambda row: int(row[0].is_anonymous_on), nullable=False),
        ],
        _bindings,
    ),
    View(
        "conversation_priorities",
        [
            column("priority_id", int_, lambda row: row[0].priority_id, nullable=False),
            column("name", sysname, lambda row: row[0].name, nullable=False),
            column("service_contract_id", int_, lambda row: row[1]),
            column("local_service_id", int_, lambda row: row[2]),
            column("remote_service_name", nvarchar(256), lambda row: row[0].remote_service),
            column("priority", tinyint, lambda row: row[0].level, nullable=False),
        ],
        _priorities,
    ),
]
