"""A queue as a table, and the columns of RECEIVE."""

from __future__ import annotations

from typing import NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.broker.queues import Queue
from harness.embedded.sqltypes import BIGINT, INT, MAX, TINYINT, UNIQUEIDENTIFIER, SqlType
from harness.embedded.tsql.catalog.view import View, attribute, column, datetime, guid
from harness.embedded.tsql.storage.moments import datetime_from_utc_ns


class ReceivedColumn(NamedTuple):
    name: str
    type: SqlType
    attribute: str  # of a queue row
    nullable: bool = False


NAME = SqlType("nvarchar", length=256)

# The columns of RECEIVE *, in the order of the manual's page on RECEIVE.
RECEIVED_COLUMNS = (
    ReceivedColumn("status", TINYINT, "status"),
    ReceivedColumn("priority", TINYINT, "incoming.terms.priority"),
    ReceivedColumn("queuing_order", BIGINT, "queuing_order"),
    ReceivedColumn("conversation_group_id", UNIQUEIDENTIFIER, "incoming.group.conversation_group_id"),
    ReceivedColumn("conversation_handle", UNIQUEIDENTIFIER, "incoming.terms.conversation_handle"),
    ReceivedColumn("message_sequence_number", BIGINT, "message_sequence_number"),
    ReceivedColumn("service_name", SqlType("nvarchar", length=512), "incoming.terms.service_name"),
    ReceivedColumn("service_id", INT, "incoming.terms.service_id"),
    ReceivedColumn("service_contract_name", NAME, "incoming.terms.contract.name"),
    ReceivedColumn("service_contract_id", INT, "incoming.terms.contract.service_contract_id"),
    ReceivedColumn("message_type_name", NAME, "message_type.name"),
    ReceivedColumn("message_type_id", INT, "message_type.message_type_id"),
    ReceivedColumn("validation", SqlType("nchar", length=2), "message_type.validation.value"),
    ReceivedColumn("message_body", SqlType("varbinary", length=MAX), "message_body", True),
)

COLUMNS = (
    *(attribute(c.name, c.type, c.attribute, nullable=c.nullable) for c in RECEIVED_COLUMNS),
    attribute("message_id", guid, nullable=False),
    column("message_enqueue_time", datetime, lambda row: datetime_from_utc_ns(row.message_enqueue_time)),
)


def queue_view(database: Database, queue: Queue) -> View:
    """The view of a queue, with all its rows, including retained ones."""
    return View(f"queue.{queue.object_id}", COLUMNS, lambda context: list(database.queue_rows(queue)))
