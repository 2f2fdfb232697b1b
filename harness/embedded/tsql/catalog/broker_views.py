"""Service Broker's catalog and its queue monitors: sys.service_queues, sys.services, sys.routes, sys.dm_broker_*.

Principal 1 owns all: dbo.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from harness.embedded.broker.monitors import QueueMonitor
from harness.embedded.broker.queues import Queue
from harness.embedded.tsql.catalog.object_views import OBJECT_COLUMNS, queues
from harness.embedded.tsql.catalog.view import Context, View
from harness.embedded.tsql.permissions.rights import DBO, DBO_ID

OWNER = -2  # execute_as_principal_id of EXECUTE AS OWNER
VALIDATIONS = {"N": "BINARY", "E": "EMPTY", "X": "XML"}  # as on a live server; the manual says NONE for N


def _execute_as(context: Context, queue: Queue) -> int | None:
    """ "NULL by default or if EXECUTE AS CALLER; ID of the specified principal if EXECUTE AS SELF or a principal; -2 =
    EXECUTE AS OWNER.\""""
    if queue.execute_as is None:
        return None
    if queue.execute_as.upper() == "OWNER":
        return OWNER
    return context.database.catalog.principals.principal_id(queue.execute_as)


def _queues(context: Context) -> Iterator[SimpleNamespace]:
    for item, queue in zip(queues(context), context.database.catalog.queues.values(), strict=True):
        execute_as = _execute_as(context, queue)
        yield SimpleNamespace(**item._asdict(), queue=queue, execute_as_principal_id=execute_as)


def _usages(context: Context) -> Iterator[SimpleNamespace]:
    for contract in context.database.catalog.contracts.values():
        for usage in contract.usages.values():
            yield SimpleNamespace(contract=contract, usage=usage)


def _contract_usages(context: Context) -> Iterator[SimpleNamespace]:
    for service in context.database.catalog.services.values():
        for contract in service.contracts.values():
            yield SimpleNamespace(service=service, contract=contract)


def _bindings(context: Context) -> Iterator[SimpleNamespace]:
    catalog = context.database.catalog
    for binding in catalog.remote_service_bindings.values():
        user = catalog.principals.users.get(binding.user.lower())
        remote = DBO_ID if binding.user.lower() == DBO else None if user is None else user.principal_id
        yield SimpleNamespace(binding=binding, remote_principal_id=remote)


def _priorities(context: Context) -> Iterator[SimpleNamespace]:
    catalog = context.database.catalog
    for priority in catalog.priorities.values():
        contract = catalog.contracts.get(priority.contract or "")
        service = catalog.services.get(priority.local_service or "")
        yield SimpleNamespace(
            priority=priority,
            service_contract_id=None if contract is None else contract.service_contract_id,
            local_service_id=None if service is None else service.service_id,
        )


def _queue_monitors(context: Context) -> list[QueueMonitor]:
    monitors = context.engine.monitors.all
    queues = [queue for database in context.engine.databases.values() for queue in database.catalog.queues.values()]
    return [monitors[queue] for queue in queues if queue in monitors]


VIEWS = [
    View(
        "service_queues",
        OBJECT_COLUMNS
        + """
        max_readers                         smallint          <- queue.max_readers
        activation_procedure                nvarchar(776)     <- queue.activation_procedure
        execute_as_principal_id             int
        is_activation_enabled               bit NOT NULL      <- queue.is_activation_enabled
        is_receive_enabled                  bit NOT NULL      <- queue.is_receive_enabled
        is_enqueue_enabled                  bit NOT NULL      <- queue.is_enqueue_enabled
        is_retention_enabled                bit NOT NULL      <- queue.is_retention_enabled
        is_poison_message_handling_enabled  bit               <- queue.is_poison_message_handling_enabled
        """,
        _queues,
    ),
    View(
        "services",
        """
        name              sysname NOT NULL
        service_id        int NOT NULL
        principal_id      int               = 1
        service_queue_id  int NOT NULL      <- queue.object_id
        """,
        lambda context: list(context.database.catalog.services.values()),
    ),
    View(
        "service_contracts",
        """
        name                 sysname NOT NULL
        service_contract_id  int NOT NULL
        principal_id         int               = 1
        """,
        lambda context: list(context.database.catalog.contracts.values()),
    ),
    View(
        "service_message_types",
        """
        name               sysname NOT NULL
        message_type_id    int NOT NULL
        principal_id       int               = 1
        validation         char(2)           <- validation.value
        validation_desc    nvarchar(60)
        xml_collection_id  int               = NULL
        """,
        lambda context: list(context.database.catalog.message_types.values()),
        validation_desc=lambda item: VALIDATIONS[item.validation.value],
    ),
    View(
        "service_contract_message_usages",
        """
        service_contract_id   int NOT NULL  <- contract.service_contract_id
        message_type_id       int NOT NULL  <- usage.message_type.message_type_id
        is_sent_by_initiator  bit NOT NULL  <- usage.is_sent_by_initiator
        is_sent_by_target     bit NOT NULL  <- usage.is_sent_by_target
        """,
        _usages,
    ),
    View(
        "service_contract_usages",
        """
        service_id           int NOT NULL  <- service.service_id
        service_contract_id  int NOT NULL  <- contract.service_contract_id
        """,
        _contract_usages,
    ),
    View(
        "routes",
        """
        name                 sysname NOT NULL
        route_id             int NOT NULL
        principal_id         int               = 1
        remote_service_name  nvarchar(256)
        broker_instance      nvarchar(128)
        lifetime             datetime
        address              nvarchar(256)
        mirror_address       nvarchar(256)
        """,
        lambda context: list(context.database.catalog.routes.values()),
    ),
    View(
        "remote_service_bindings",
        """
        name                       sysname NOT NULL  <- binding.name
        remote_service_binding_id  int NOT NULL      <- binding.remote_service_binding_id
        principal_id               int               = 1
        remote_service_name        nvarchar(256)     <- binding.remote_service_name
        service_contract_id        int NOT NULL      = 0
        remote_principal_id        int
        is_anonymous_on            bit NOT NULL      <- binding.is_anonymous_on
        """,
        _bindings,
    ),
    View(
        "conversation_priorities",
        """
        priority_id          int NOT NULL      <- priority.priority_id
        name                 sysname NOT NULL  <- priority.name
        service_contract_id  int
        local_service_id     int
        remote_service_name  nvarchar(256)     <- priority.remote_service
        priority             tinyint NOT NULL  <- priority.level
        """,
        _priorities,
    ),
    View(
        "dm_broker_queue_monitors",
        """
        database_id             int
        queue_id                int
        state                   nvarchar(32)  <- state.value
        last_empty_rowset_time  datetime
        last_activated_time     datetime
        tasks_waiting           int
        """,
        _queue_monitors,
    ),
    View(
        "dm_broker_activated_tasks",
        """
        spid            int
        database_id     smallint
        queue_id        int
        procedure_name  nvarchar(650)
        execute_as      int            = 1
        """,
        lambda context: list(context.engine.monitors.readers.values()),
    ),
]
