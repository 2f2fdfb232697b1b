"""Service Broker: its catalog, queue monitors, conversations and messages, and queues as tables."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

from harness.embedded.broker.database import ConversationEndpoint, Database, TransmissionRow
from harness.embedded.broker.queues import ConversationGroup, Queue, QueueRow
from harness.embedded.broker.system_objects import END_DIALOG, ERROR
from harness.embedded.broker.transactions import Transaction
from harness.embedded.tsql.catalog.object_views import OBJECT_COLUMNS, ObjectRow, queue_row
from harness.embedded.tsql.catalog.page_views import location
from harness.embedded.tsql.catalog.view import Context, View, columns
from harness.embedded.tsql.catalog.visibility import everybody, of_object, owners, securable, with_permission
from harness.embedded.tsql.permissions.rights import DBO, DBO_ID

OWNER = -2  # execute_as_principal_id of EXECUTE AS OWNER
DROPPED = -1  # the same of a user that does not exist any more: its id is not kept
VALIDATIONS = {"N": "BINARY", "E": "EMPTY", "X": "XML"}  # as on a live server; the manual says NONE for N
NEVER_NS = -2_208_988_800_000_000_000  # 1900-01-01
LIFETIME_MAX_NS = (2**31 - 1) * 1_000_000_000
NO_TRANSACTION = bytes(6)


def _execute_as(context: Context, queue: Queue) -> int | None:
    """ "NULL by default or if EXECUTE AS CALLER; ID of the specified principal if EXECUTE AS SELF or a principal; -2 =
    EXECUTE AS OWNER.\""""
    if queue.execute_as is None:
        return None
    if queue.execute_as.upper() == "OWNER":
        return OWNER
    principals = context.database.catalog.principals
    is_known = queue.execute_as.lower() in principals.users or queue.execute_as.lower() == DBO
    return principals.principal_id(queue.execute_as) if is_known else DROPPED


def _queues(context: Context) -> Iterator[ObjectRow]:
    for queue in context.database.catalog.queues.values():
        row, execute_as = queue_row(context, queue), _execute_as(context, queue)
        yield row if execute_as is None else row._replace(execute_as_principal_id=execute_as)


def _owned(kind: str) -> Callable[[Context], Iterator[SimpleNamespace]]:
    """Services, contracts and the like, with the ids of their owners."""

    def rows(context: Context) -> Iterator[SimpleNamespace]:
        catalog = context.database.catalog
        for item in getattr(catalog, kind).values():
            yield SimpleNamespace(item=item, principal_id=catalog.principals.principal_id(item.owner))

    return rows


def _message_types(context: Context) -> Iterator[SimpleNamespace]:
    collections = context.database.catalog.xml_schema_collections
    for row in _owned("message_types")(context):
        collection = collections.get(row.item.schema_collection)
        yield SimpleNamespace(**vars(row), collection_id=None if collection is None else collection.xml_collection_id)


def _xml_schema_collections(context: Context) -> Iterator[SimpleNamespace]:
    catalog = context.database.catalog
    for collection in catalog.xml_schema_collections.values():
        schema, _, name = collection.name.partition(".")
        yield SimpleNamespace(name=name, schema_id=catalog.schema_id(schema), collection=collection)


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
        owner = catalog.principals.principal_id(binding.owner)
        yield SimpleNamespace(binding=binding, principal_id=owner, remote_principal_id=remote)


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


def _own_transaction(context: Context) -> Transaction | None:
    """The open transaction of the session, which sees what it has sent."""
    transaction: Transaction | None = context.session.tx
    if transaction is not None:
        transaction.deliver_sent()
    return transaction


def _others(context: Context) -> list[Transaction]:
    """The open transactions of other sessions that have locked a conversation group, in the order of the groups."""
    own_transaction = _own_transaction(context)
    owners = dict.fromkeys(group.owner for group in context.database.groups.values())
    return [owner for owner in owners if isinstance(owner, Transaction) and owner is not own_transaction]


def _endpoints(context: Context) -> list[ConversationEndpoint]:
    """The conversation endpoints without those that another transaction has begun and not committed."""
    database = context.database
    begun = {endpoint for tx in _others(context) for endpoint in tx.begun_in(database)}
    return [endpoint for endpoint in database.endpoints.values() if endpoint not in begun]


def _transmission_rows(context: Context) -> list[TransmissionRow]:
    """The transmission queue, with what the session's own transaction has sent to other instances."""
    own_transaction = _own_transaction(context)
    rows = list(context.database.transmission_rows())
    if own_transaction is not None:
        rows += [row for row in own_transaction.sent if row.endpoint.database is context.database]
    return rows


def _groups(context: Context) -> list[ConversationGroup]:
    members = {endpoint.incoming.group for endpoint in _endpoints(context)}
    return [group for group in context.database.groups.values() if group in members or not group.members]


def _moment(utc_ns: int | None) -> int:
    return NEVER_NS if utc_ns is None else utc_ns


def _lifetime(endpoint: ConversationEndpoint) -> int:
    """A dialog without LIFETIME lives 2^31 - 1 seconds, here from the creation of the database on."""
    utc_ns = endpoint.terms.lifetime
    return endpoint.database.catalog.create_time_ns + LIFETIME_MAX_NS if utc_ns is None else utc_ns


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
        visible=of_object(),
    ),
    View(
        "services",
        """
        name              sysname NOT NULL  <- item.name
        service_id        int NOT NULL      <- item.service_id
        principal_id      int
        service_queue_id  int NOT NULL      <- item.queue.object_id
        """,
        _owned("services"),
        visible=securable("SERVICE", "item.service_id"),
    ),
    View(
        "service_contracts",
        """
        name                 sysname NOT NULL  <- item.name
        service_contract_id  int NOT NULL      <- item.service_contract_id
        principal_id         int
        """,
        _owned("contracts"),
        visible=securable("CONTRACT", "item.service_contract_id"),
    ),
    View(
        "service_message_types",
        """
        name               sysname NOT NULL  <- item.name
        message_type_id    int NOT NULL      <- item.message_type_id
        principal_id       int
        validation         char(2)           <- item.validation.value
        validation_desc    nvarchar(60)
        xml_collection_id  int
        """,
        _message_types,
        xml_collection_id=lambda row: row.collection_id,
        validation_desc=lambda row: VALIDATIONS[row.item.validation.value],
        visible=securable("MESSAGE TYPE", "item.message_type_id"),
    ),
    View(
        "message_type_xml_schema_collection_usages",
        """
        message_type_id    int NOT NULL  <- item.message_type_id
        xml_collection_id  int NOT NULL  <- collection_id
        """,
        lambda context: (row for row in _message_types(context) if row.collection_id is not None),
        visible=securable("MESSAGE TYPE", "item.message_type_id"),
    ),
    View(
        "xml_schema_collections",
        """
        xml_collection_id  int NOT NULL      <- collection.xml_collection_id
        schema_id          int NOT NULL
        principal_id       int               = NULL
        name               sysname NOT NULL
        """,
        _xml_schema_collections,
        visible=everybody,
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
        visible=securable("CONTRACT", "contract.service_contract_id"),
    ),
    View(
        "service_contract_usages",
        """
        service_id           int NOT NULL  <- service.service_id
        service_contract_id  int NOT NULL  <- contract.service_contract_id
        """,
        _contract_usages,
        visible=securable("SERVICE", "service.service_id"),
    ),
    View(
        "service_queue_usages",
        """
        service_id        int NOT NULL
        service_queue_id  int NOT NULL  <- queue.object_id
        """,
        lambda context: list(context.database.catalog.services.values()),
        visible=securable("SERVICE", "service_id"),
    ),
    View(
        "routes",
        """
        name                 sysname NOT NULL  <- item.name
        route_id             int NOT NULL      <- item.route_id
        principal_id         int
        remote_service_name  nvarchar(256)     <- item.remote_service_name
        broker_instance      nvarchar(128)     <- item.broker_instance
        lifetime             datetime          <- item.lifetime
        address              nvarchar(256)     <- item.address
        mirror_address       nvarchar(256)     <- item.mirror_address
        """,
        _owned("routes"),
        visible=securable("ROUTE", "item.route_id"),
    ),
    View(
        "remote_service_bindings",
        """
        name                       sysname NOT NULL  <- binding.name
        remote_service_binding_id  int NOT NULL      <- binding.remote_service_binding_id
        principal_id               int
        remote_service_name        nvarchar(256)     <- binding.remote_service_name
        service_contract_id        int NOT NULL      = 0
        remote_principal_id        int
        is_anonymous_on            bit NOT NULL      <- binding.is_anonymous_on
        """,
        _bindings,
        visible=securable("REMOTE SERVICE BINDING", "binding.remote_service_binding_id"),
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
        visible=with_permission("ALTER", "VIEW DEFINITION"),
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
        lambda context: list(context.engine.monitors.all.values()),
        visible=everybody,
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
        visible=everybody,
    ),
    View(
        "dm_broker_forwarded_messages",  # always empty: messages are not forwarded
        """
        conversation_id          uniqueidentifier
        is_initiator             bit
        to_service_name          nvarchar(256)
        to_broker_instance       nvarchar(256)
        from_service_name        nvarchar(256)
        from_broker_instance     nvarchar(256)
        adjacent_broker_address  nvarchar(256)
        message_sequence_number  bigint
        message_fragment_number  int
        hops_remaining           tinyint
        time_to_live             int
        time_consumed            int
        message_id               uniqueidentifier
        """,
        lambda context: [],
        visible=everybody,
    ),
    View(
        "conversation_endpoints",
        """
        conversation_handle              uniqueidentifier NOT NULL  <- terms.conversation_handle
        conversation_id                  uniqueidentifier NOT NULL  <- terms.conversation_id
        is_initiator                     tinyint NOT NULL           <- terms.is_initiator
        service_contract_id              int NOT NULL               <- terms.contract.service_contract_id
        conversation_group_id            uniqueidentifier NOT NULL  <- incoming.group.conversation_group_id
        service_id                       int NOT NULL               <- terms.service_id
        lifetime                         datetime NOT NULL
        state                            char(2) NOT NULL           <- state.value
        state_desc                       nvarchar(60)               <- state.name
        far_service                      nvarchar(256) NOT NULL     <- terms.far_service
        far_broker_instance              nvarchar(128)
        principal_id                     int NOT NULL               = 1
        far_principal_id                 int NOT NULL               = -1
        outbound_session_key_identifier  uniqueidentifier NOT NULL  = '00000000-0000-0000-0000-000000000000'
        inbound_session_key_identifier   uniqueidentifier NOT NULL  = '00000000-0000-0000-0000-000000000000'
        security_timestamp               datetime NOT NULL
        dialog_timer                     datetime NOT NULL
        send_sequence                    bigint NOT NULL
        last_send_tran_id                binary(6) NOT NULL
        end_dialog_sequence              bigint NOT NULL
        receive_sequence                 bigint NOT NULL
        receive_sequence_frag            int NOT NULL               = 0
        system_sequence                  bigint NOT NULL            = 0
        first_out_of_order_sequence      bigint NOT NULL
        last_out_of_order_sequence       bigint NOT NULL
        last_out_of_order_frag           int NOT NULL               = -1
        is_system                        bit NOT NULL               <- terms.is_system
        priority                         tinyint NOT NULL           <- terms.priority
        """,
        _endpoints,
        lifetime=_lifetime,
        last_send_tran_id=lambda endpoint: NO_TRANSACTION,
        security_timestamp=lambda endpoint: _moment(endpoint.security_timestamp),
        dialog_timer=lambda endpoint: _moment(endpoint.dialog_timer),
        first_out_of_order_sequence=lambda endpoint: min(endpoint.incoming.early or (), default=-1),
        last_out_of_order_sequence=lambda endpoint: max(endpoint.incoming.early or (), default=-1),
        visible=owners,
    ),
    View(
        "conversation_groups",
        """
        conversation_group_id  uniqueidentifier NOT NULL
        service_id             int NOT NULL
        is_system              bit
        """,
        _groups,
        visible=owners,
    ),
    View(
        "transmission_queue",
        """
        conversation_handle      uniqueidentifier NOT NULL  <- endpoint.terms.conversation_handle
        to_service_name          nvarchar(256)              <- to_service
        to_broker_instance       nvarchar(128)
        from_service_name        nvarchar(256)              <- from_service
        service_contract_name    nvarchar(256)              <- endpoint.terms.contract.name
        enqueue_time             datetime NOT NULL
        message_sequence_number  bigint NOT NULL
        message_type_name        nvarchar(256)
        is_conversation_error    bit NOT NULL
        is_end_of_dialog         bit NOT NULL
        message_body             varbinary(max)
        transmission_status      nvarchar(4000)
        priority                 tinyint NOT NULL           <- endpoint.terms.priority
        """,
        _transmission_rows,
        is_conversation_error=lambda row: row.message_type_name == ERROR,
        is_end_of_dialog=lambda row: row.message_type_name == END_DIALOG,
        visible=owners,
    ),
    View(
        "sysdesend",
        """
        handle     uniqueidentifier NOT NULL  <- terms.conversation_handle
        diagid     uniqueidentifier NOT NULL  <- terms.conversation_id
        initiator  tinyint NOT NULL           <- terms.is_initiator
        sendseq    bigint NOT NULL            <- send_sequence
        sendxact   binary(6) NOT NULL
        """,
        _endpoints,
        sendxact=lambda endpoint: NO_TRANSACTION,
        is_base_table=True,
        location=location,
        visible=owners,
    ),
    View(
        "sysdercv",
        """
        diagid       uniqueidentifier NOT NULL  <- terms.conversation_id
        initiator    tinyint NOT NULL           <- terms.is_initiator
        handle       uniqueidentifier NOT NULL  <- terms.conversation_handle
        rcvseq       bigint NOT NULL            <- receive_sequence
        state        char(2) NOT NULL           <- state.value
        contract     int NOT NULL               <- terms.contract.service_contract_id
        svcid        int NOT NULL               <- terms.service_id
        convgroup    uniqueidentifier NOT NULL  <- incoming.group.conversation_group_id
        farsvc       nvarchar(256) NOT NULL     <- terms.far_service
        farbrkrinst  nvarchar(128)              <- far_broker_instance
        priority     tinyint NOT NULL           <- terms.priority
        """,
        _endpoints,
        is_base_table=True,
        location=location,  # as if in the order of sys.sysdesend: SQL Server's own is not known
        visible=owners,
    ),
    View(
        "sysxmitqueue",
        """
        dlgid         uniqueidentifier NOT NULL  <- endpoint.terms.conversation_id
        finitiator    bit NOT NULL               <- sent_by_initiator
        tosvc         nvarchar(256)              <- to_service
        tobrkrinst    nvarchar(128)              <- to_broker_instance
        fromsvc       nvarchar(256)              <- from_service
        frombrkrinst  nvarchar(128)              <- from_broker_instance
        svccontr      nvarchar(256)              <- endpoint.terms.contract.name
        msgseqnum     bigint NOT NULL            <- message_sequence_number
        msgtype       nvarchar(256)              <- message_type_name
        enqtime       datetime NOT NULL          <- enqueue_time
        msgbody       varbinary(max)             <- message_body
        """,
        _transmission_rows,
        is_base_table=True,
        visible=owners,
    ),
]


# The columns of RECEIVE *, in the order of the manual's page on RECEIVE.
RECEIVED = """
    status                   tinyint NOT NULL           <- status_in_receive
    priority                 tinyint NOT NULL           <- incoming.terms.priority
    queuing_order            bigint NOT NULL
    conversation_group_id    uniqueidentifier NOT NULL  <- incoming.group.conversation_group_id
    conversation_handle      uniqueidentifier NOT NULL  <- incoming.terms.conversation_handle
    message_sequence_number  bigint NOT NULL
    service_name             nvarchar(512) NOT NULL     <- incoming.terms.service_name
    service_id               int NOT NULL               <- incoming.terms.service_id
    service_contract_name    nvarchar(256) NOT NULL     <- incoming.terms.contract.name
    service_contract_id      int NOT NULL               <- incoming.terms.contract.service_contract_id
    message_type_name        nvarchar(256) NOT NULL     <- message_type.name
    message_type_id          int NOT NULL               <- message_type.message_type_id
    validation               nchar(2) NOT NULL          <- message_type.validation.value
    message_body             varbinary(max)
    """
RECEIVED_COLUMNS = columns(RECEIVED, {})
# "Queues expose the message enqueued time": not part of RECEIVE *, whose page does not list it.
ENQUEUED = "message_enqueue_time     datetime"
[ENQUEUED_COLUMN] = columns(ENQUEUED, {})


def queue_views(database: Database, queue: Queue) -> tuple[View, View]:
    """The views of a queue, with all its rows, including retained ones: of committed rows, and WITH (NOLOCK)."""
    table = f"""{RECEIVED.replace("<- status_in_receive", "<- status")}
    message_id               uniqueidentifier NOT NULL
    {ENQUEUED}
    """

    def committed(context: Context) -> list[QueueRow]:
        transactions = _others(context)
        received = {row.queuing_order: row for tx in transactions for row in tx.taken_from(queue)}
        sent = {row for tx in transactions for row in tx.shown_in(queue)}
        rows = [*database.queue_rows(queue), *(row for order, row in received.items() if order not in queue.rows)]
        return [row for row in rows if row not in sent]

    def uncommitted(context: Context) -> list[QueueRow]:
        _own_transaction(context)
        return list(database.queue_rows(queue))

    # SELECT on the queue is a permission that the plan of the query needs.
    name = f"queue.{queue.object_id}"
    return (
        View(name, table, committed, visible=everybody),
        View(f"{name}.nolock", table, uncommitted, visible=everybody),
    )
