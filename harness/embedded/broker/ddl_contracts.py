"""CREATE, ALTER and DROP of message types and contracts."""

from __future__ import annotations

from collections.abc import Sequence

from harness.embedded.broker import ddl
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.database import Database
from harness.embedded.broker.ddl_services import Severance
from harness.embedded.broker.definitions import Contract, MessageType, MessageUsage, Validation
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

_VALIDATIONS = {
    "NONE": Validation.BINARY,
    "EMPTY": Validation.EMPTY,
    "WELL_FORMED_XML": Validation.XML,
    "VALID_XML": Validation.XML,
}
_SENT_BY = {(True, False): "INITIATOR", (False, True): "TARGET", (True, True): "ANY"}


def create_message_type(
    tx: Transaction, catalog: Catalog, name: str, *, validation: str = "NONE", owner: str = "dbo"
) -> None:
    """Adds a message type; NONE, EMPTY, WELL_FORMED_XML or VALID_XML, which is checked for well-formedness only."""
    ddl.refuse_existing(catalog.message_types, name)
    created = MessageType(name, catalog.new_id("message_type"), _VALIDATIONS[validation], owner=owner)
    ddl.add(tx, catalog.message_types, name, created)
    _store_message_type(tx, catalog, created)


def alter_message_type(tx: Transaction, catalog: Catalog, name: str, *, validation: str) -> None:
    message_type = ddl.find(catalog.message_types, "alter", "message type", name)
    ddl.require_user_object(message_type.message_type_id)
    ddl.assign(tx, message_type, "validation", _VALIDATIONS[validation])
    _store_message_type(tx, catalog, message_type)


def drop_message_type(tx: Transaction, catalog: Catalog, name: str) -> None:
    message_type = ddl.find(catalog.message_types, "drop", "message type", name)
    ddl.require_user_object(message_type.message_type_id)
    if any(name in contract.usages for contract in catalog.contracts.values()):
        raise SqlServerError(3716, "message type", name, "contract")
    ddl.remove(tx, catalog.message_types, name)
    ddl.write(tx, catalog, "message_type", message_type.message_type_id, None)


def _store_message_type(tx: Transaction, catalog: Catalog, message_type: MessageType) -> None:
    row = (message_type.name, message_type.validation.value, message_type.owner)
    ddl.write(tx, catalog, "message_type", message_type.message_type_id, row)


def create_contract(
    tx: Transaction, catalog: Catalog, name: str, *, usages: Sequence[tuple[str, str]], owner: str = "dbo"
) -> None:
    """Adds a contract; `usages` are (message type, INITIATOR | TARGET | ANY)."""
    ddl.refuse_existing(catalog.contracts, name)
    agreed: dict[str, MessageUsage] = {}
    for message_type, sent_by in usages:
        if message_type in agreed:
            raise SqlServerError(8403, message_type)
        found = ddl.find(catalog.message_types, "find", "message type", message_type)
        agreed[message_type] = MessageUsage(found, sent_by != "TARGET", sent_by != "INITIATOR")
    if not any(usage.is_sent_by_initiator for usage in agreed.values()):
        raise SqlServerError(8492, name)
    created = Contract(name, catalog.new_id("contract"), agreed, owner)
    ddl.add(tx, catalog.contracts, name, created)
    stored = tuple(
        (usage.message_type.name, _SENT_BY[usage.is_sent_by_initiator, usage.is_sent_by_target])
        for usage in agreed.values()
    )
    ddl.write(tx, catalog, "contract", created.service_contract_id, (name, stored, owner))
    ddl.changed(tx, catalog)


def drop_contract(tx: Transaction, database: Database, severance: Severance, name: str) -> None:
    catalog = database.catalog
    contract = ddl.find(catalog.contracts, "drop", "service contract", name)
    ddl.require_user_object(contract.service_contract_id)
    if any(name in service.contracts for service in catalog.services.values()):
        raise SqlServerError(3716, "service contract", name, "service")
    if any(priority.contract == name for priority in catalog.priorities.values()):
        raise SqlServerError(3716, "service contract", name, "conversation priority")
    severance.break_off(tx, [one for one in database.endpoints.values() if one.terms.contract is contract], 8487)
    ddl.remove(tx, catalog.contracts, name)
    ddl.write(tx, catalog, "contract", contract.service_contract_id, None)
