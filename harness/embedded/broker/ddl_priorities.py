"""CREATE, ALTER and DROP of broker priorities."""

from __future__ import annotations

from harness.embedded.broker import ddl
from harness.embedded.broker.catalog import DEFAULT_PRIORITY, Catalog
from harness.embedded.broker.definitions import Priority
from harness.embedded.broker.transactions import Transaction


def create_priority(
    tx: Transaction,
    catalog: Catalog,
    name: str,
    *,
    contract: str | None = None,
    local_service: str | None = None,
    remote_service: str | None = None,
    level: int = DEFAULT_PRIORITY,
) -> None:
    """None stands for ANY."""
    ddl.refuse_existing(catalog.priorities, name)
    created = Priority(name, catalog.new_id("priority"), contract, local_service, remote_service, level)
    _check_priority(catalog, created)
    ddl.add(tx, catalog.priorities, name, created)
    _store_priority(tx, catalog, created)


def alter_priority(tx: Transaction, catalog: Catalog, name: str, **changes: str | int | None) -> None:
    """`changes`: any of the keywords of `create_priority`."""
    priority = ddl.find(catalog.priorities, "alter", "broker priority", name)
    for attribute, value in changes.items():
        ddl.assign(tx, priority, attribute, value)
    _check_priority(catalog, priority)
    _store_priority(tx, catalog, priority)


def drop_priority(tx: Transaction, catalog: Catalog, name: str) -> None:
    priority = ddl.find(catalog.priorities, "drop", "broker priority", name)
    ddl.remove(tx, catalog.priorities, name)
    ddl.write(tx, catalog, "priority", priority.priority_id, None)


def _check_priority(catalog: Catalog, priority: Priority) -> None:
    if priority.contract is not None:
        ddl.find(catalog.contracts, "find", "service contract", priority.contract)
    if priority.local_service is not None:
        ddl.find(catalog.services, "find", "service", priority.local_service)


def _store_priority(tx: Transaction, catalog: Catalog, priority: Priority) -> None:
    row = (priority.name, priority.contract, priority.local_service, priority.remote_service, priority.level)
    ddl.write(tx, catalog, "priority", priority.priority_id, row)
