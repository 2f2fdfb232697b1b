"""Conversations and messages: sys.conversation_endpoints, sys.transmission_queue, their base tables sysdesend, sysdercv
and sysxmitqueue, and queues as tables."""

from __future__ import annotations

from typing import NamedTuple

from harness.embedded.broker.database import ConversationEndpoint, Database, TransmissionRow
from harness.embedded.broker.queues import Queue
from harness.embedded.broker.system_objects import END_DIALOG, ERROR
from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tsql.catalog.page_views import location
from harness.embedded.tsql.catalog.view import (
    View,
    attribute,
    bigint,
    bit,
    char,
    column,
    datetime,
    guid,
    int_,
    nvarchar,
    tinyint,
)
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns

NEVER = "1900-01-01 00:00:00.000"
LIFETIME_MAX_NS = (2**31 - 1) * 1_000_000_000
EMPTY_GUID = "00000000-0000-0000-0000-000000000000"
DBO = 1


def _moment(utc_ns: int | None) -> str:
    return datetime_from_utc_ns(utc_ns) or NEVER


def _lifetime(endpoint: ConversationEndpoint) -> str:
    """A dialog without LIFETIME lives 2^31 - 1 seconds, here from the creation of the database on."""
    utc_ns = endpoint.terms.lifetime
    return _moment(endpoint.database.catalog.create_time_ns + LIFETIME_MAX_NS if utc_ns is None else utc_ns)


ENDPOINT_COLUMNS = [
    attribute("conversation_handle", guid, "terms.conversation_handle", nullable=False),
    attribute("conversation_id", guid, "terms.conversation_id", nullable=False),
    column("is_initiator", tinyint, lambda endpoint: int(endpoint.terms.is_initiator), nullable=False),
    attribute("service_contract_id", int_, "terms.contract.service_contract_id", nullable=False),
    attribute("conversation_group_id", guid, "incoming.group.conversation_group_id", nullable=False),
    attribute("service_id", int_, "terms.service_id", nullable=False),
    column("lifetime", datetime, _lifetime, nullable=False),
    column("state", char(2), lambda endpoint: endpoint.state.value, nullable=False),
    attribute("state_desc", nvarchar(60), "state.name"),
    attribute("far_service", nvarchar(256), "terms.far_service", nullable=False),
    attribute("far_broker_instance", nvarchar(128)),
    column("principal_id", int_, DBO, nullable=False),
    column("far_principal_id", int_, -1, nullable=False),
    column("outbound_session_key_identifier", guid, EMPTY_GUID, nullable=False),
    column("inbound_session_key_identifier", guid, EMPTY_GUID, nullable=False),
    column("security_timestamp", datetime, lambda endpoint: _moment(endpoint.security_timestamp), nullable=False),
    column("dialog_timer", datetime, lambda endpoint: _moment(endpoint.dialog_timer), nullable=False),
    attribute("send_sequence", bigint, nullable=False),
    column("last_send_tran_id", SqlType("binary", length=6), bytes(6), nullable=False),
    attribute("end_dialog_sequence", bigint, nullable=False),
    attribute("receive_sequence", bigint, nullable=False),
    column("receive_sequence_frag", int_, 0, nullable=False),
    column("system_sequence", bigint, 0, nullable=False),
    column(
        "first_out_of_order_sequence",
        bigint,
        lambda e: min(e.incoming.early) if e.incoming.early else -1,
        nullable=False,
    ),
    column(
        "last_out_of_order_sequence",
        bigint,
        lambda e: max(e.incoming.early) if e.incoming.early else -1,
        nullable=False,
    ),
    column("last_out_of_order_frag", int_, -1, nullable=False),
    column("is_system", bit, lambda endpoint: int(endpoint.terms.is_system), nullable=False),
    attribute("priority", tinyint, "terms.priority", nullable=False),
]


def _frombrkrinst(row: TransmissionRow) -> str:
    return row.endpoint.database.catalog.service_broker_guid


VIEWS = [
    View("conversation_endpoints", ENDPOINT_COLUMNS, lambda context: list(context.database.endpoints.values())),
    View(
        "conversation_groups",
        [
            attribute("conversation_group_id", guid, nullable=False),
            attribute("service_id", int_, nullable=False),
            column("is_system", bit, lambda group: int(group.is_system)),
        ],
        lambda context: list(context.database.groups.values()),
    ),
    View(
        "transmission_queue",
        [
            attribute("conversation_handle", guid, "endpoint.terms.conversation_handle", nullable=False),
            attribute("to_service_name", nvarchar(256), "endpoint.terms.far_service"),
            attribute("to_broker_instance", nvarchar(128), "endpoint.far_broker_instance"),
            attribute("from_service_name", nvarchar(256), "endpoint.terms.service_name"),
            attribute("service_contract_name", nvarchar(256), "endpoint.terms.contract.name"),
            column("enqueue_time", datetime, lambda row: datetime_from_utc_ns(row.enqueue_time), nullable=False),
            attribute("message_sequence_number", bigint, nullable=False),
            attribute("message_type_name", nvarchar(256)),
            column("is_conversation_error", bit, lambda row: int(row.message_type_name == ERROR), nullable=False),
            column("is_end_of_dialog", bit, lambda row: int(row.message_type_name == END_DIALOG), nullable=False),
            attribute("message_body", SqlType("varbinary", length=MAX)),
            attribute("transmission_status", nvarchar(4000), "endpoint.outgoing.transmission_status"),
            attribute("priority", tinyint, "endpoint.terms.priority", nullable=False),
        ],
        lambda context: list(context.database.transmission_rows()),
    ),
    View(
        "sysdesend",
        [
            attribute("handle", guid, "terms.conversation_handle", nullable=False),
            attribute("diagid", guid, "terms.conversation_id", nullable=False),
            column("initiator", tinyint, lambda endpoint: int(endpoint.terms.is_initiator), nullable=False),
            attribute("sendseq", bigint, "send_sequence", nullable=False),
            column("sendxact", SqlType("binary", length=6), bytes(6), nullable=False),
        ],
        lambda context: list(context.database.endpoints.values()),
        is_base_table=True,
        location=location,
    ),
    View(
        "sysdercv",
        [
            attribute("diagid", guid, "terms.conversation_id", nullable=False),
            column("initiator", tinyint, lambda endpoint: int(endpoint.terms.is_initiator), nullable=False),
            attribute("handle", guid, "terms.conversation_handle", nullable=False),
            attribute("rcvseq", bigint, "receive_sequence", nullable=False),
            column("state", char(2), lambda endpoint: endpoint.state.value, nullable=False),
            attribute("contract", int_, "terms.contract.service_contract_id", nullable=False),
            attribute("svcid", int_, "terms.service_id", nullable=False),
            attribute("convgroup", guid, "incoming.group.conversation_group_id", nullable=False),
            attribute("farsvc", nvarchar(256), "terms.far_service", nullable=False),
            attribute("farbrkrinst", nvarchar(128), "far_broker_instance"),
            attribute("priority", tinyint, "terms.priority", nullable=False),
        ],
        lambda context: list(context.database.endpoints.values()),
        is_base_table=True,
    ),
    View(
        "sysxmitqueue",
        [
            attribute("dlgid", guid, "endpoint.terms.conversation_id", nullable=False),
            column("finitiator", bit, lambda row: int(row.endpoint.terms.is_initiator), nullable=False),
            attribute("tosvc", nvarchar(256), "endpoint.terms.far_service"),
            attribute("tobrkrinst", nvarchar(128), "endpoint.far_broker_instance"),
            attribute("fromsvc", nvarchar(256), "endpoint.terms.service_name"),
            column("frombrkrinst", nvarchar(128), _frombrkrinst),
            attribute("svccontr", nvarchar(256), "endpoint.terms.contract.name"),
            attribute("msgseqnum", bigint, "message_sequence_number", nullable=False),
            attribute("msgtype", nvarchar(256), "message_type_name"),
            column("enqtime", datetime, lambda row: datetime_from_utc_ns(row.enqueue_time), nullable=False),
            attribute("msgbody", SqlType("varbinary", length=MAX), "message_body"),
        ],
        lambda context: list(context.database.transmission_rows()),
        is_base_table=True,
    ),
]


# -- queues as tables, and the columns of RECEIVE ----------------------------------------------------------------------


class ReceivedColumn(NamedTuple):
    name: str
    type: SqlType
    attribute: str  # of a queue row
    nullable: bool = False


# The columns of RECEIVE *, in the order of the manual's page on RECEIVE.
RECEIVED_COLUMNS = (
    ReceivedColumn("status", tinyint, "status"),
    ReceivedColumn("priority", tinyint, "incoming.terms.priority"),
    ReceivedColumn("queuing_order", bigint, "queuing_order"),
    ReceivedColumn("conversation_group_id", guid, "incoming.group.conversation_group_id"),
    ReceivedColumn("conversation_handle", guid, "incoming.terms.conversation_handle"),
    ReceivedColumn("message_sequence_number", bigint, "message_sequence_number"),
    ReceivedColumn("service_name", SqlType("nvarchar", length=512), "incoming.terms.service_name"),
    ReceivedColumn("service_id", int_, "incoming.terms.service_id"),
    ReceivedColumn("service_contract_name", nvarchar(256), "incoming.terms.contract.name"),
    ReceivedColumn("service_contract_id", int_, "incoming.terms.contract.service_contract_id"),
    ReceivedColumn("message_type_name", nvarchar(256), "message_type.name"),
    ReceivedColumn("message_type_id", int_, "message_type.message_type_id"),
    ReceivedColumn("validation", SqlType("nchar", length=2), "message_type.validation.value"),
    ReceivedColumn("message_body", SqlType("varbinary", length=MAX), "message_body", True),
)

QUEUE_COLUMNS = (
    *(attribute(c.name, c.type, c.attribute, nullable=c.nullable) for c in RECEIVED_COLUMNS),
    attribute("message_id", guid, nullable=False),
    column("message_enqueue_time", datetime, lambda row: datetime_from_utc_ns(row.message_enqueue_time)),
)


def queue_view(database: Database, queue: Queue) -> View:
    """The view of a queue, with all its rows, including retained ones."""
    return View(f"queue.{queue.object_id}", QUEUE_COLUMNS, lambda context: list(database.queue_rows(queue)))
