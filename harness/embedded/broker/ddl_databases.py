"""CREATE, ALTER and DROP DATABASE."""

from functools import partial

from harness.embedded.broker import ddl, ddl_network, system_objects
from harness.embedded.broker.catalog import Catalog
from harness.embedded.broker.database import Database, Databases, random_guid
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Entropy

FIRST_DATABASE_ID = 5


def create_database(tx: Transaction, databases: Databases, name: str) -> Database:
    """Make a database whose broker is enabled."""
    if name.lower() in databases:
        raise SqlServerError(1801, name)
    identifiers = (database.database_id for database in databases.values())
    database = databases.add(name, max(FIRST_DATABASE_ID, max(identifiers) + 1))
    tx.on_rollback(partial(databases.pop, name.lower(), None))
    store(tx, database.catalog)
    return database


def store(tx: Transaction, catalog: Catalog) -> None:
    """Stage a new database and its route to its own instance, whose id is in the users' range."""
    ddl.store_database(tx, catalog)
    ddl_network.create_route(tx, catalog, system_objects.AUTO_CREATED_LOCAL, address="LOCAL")


def set_broker(  # noqa: PLR0917
    tx: Transaction, databases: Databases, database: Database, delivery: Delivery, entropy: Entropy, option: str
) -> None:
    """ALTER DATABASE ... SET ENABLE_BROKER, DISABLE_BROKER, NEW_BROKER or ERROR_BROKER_CONVERSATIONS."""
    catalog = database.catalog
    if option == "NEW_BROKER":
        tx.set(catalog, "service_broker_guid", random_guid(entropy))
        for endpoint in list(database.endpoints.values()):
            delivery.remove(tx, endpoint)
    elif option == "ERROR_BROKER_CONVERSATIONS":
        text = SqlServerError(9719).text
        for endpoint in list(database.endpoints.values()):
            delivery.raise_error(tx, endpoint, -9719, text)
    elif option == "ENABLE_BROKER":
        other = databases.of_broker(catalog.service_broker_guid)
        if other is not None and other is not database and other.catalog.is_broker_enabled:
            raise SqlServerError(9772, database.name)
    tx.set(catalog, "is_broker_enabled", option != "DISABLE_BROKER")
    ddl.store_database(tx, catalog)
    ddl.changed(tx, catalog)


# Options of ALTER DATABASE that sys.databases shows: the attributes of `Catalog`, a flag but for COMPATIBILITY_LEVEL.
OPTIONS = {
    "COMPATIBILITY_LEVEL": "compatibility_level",
    "HONOR_BROKER_PRIORITY": "is_honor_broker_priority_on",
    "READ_COMMITTED_SNAPSHOT": "is_read_committed_snapshot_on",
    "TRUSTWORTHY": "is_trustworthy_on",
}


def set_option(tx: Transaction, catalog: Catalog, option: str, value: int | bool) -> None:
    """ALTER DATABASE ... SET one of `OPTIONS`."""
    tx.set(catalog, OPTIONS[option], value)
    ddl.store_database(tx, catalog)
    ddl.changed(tx, catalog)  # messages that waited for a TRUSTWORTHY database go on


def set_shown_option(tx: Transaction, catalog: Catalog, option: str, value: str) -> None:
    """ALTER DATABASE ... SET one of `catalog.SHOWN_OPTIONS`."""
    if catalog.shown_options[option] != value:
        tx.set(catalog, "shown_options", {**catalog.shown_options, option: value})
        ddl.store_database(tx, catalog)


def drop_database(tx: Transaction, databases: Databases, delivery: Delivery, name: str) -> None:
    database = databases.get(name.lower())
    if database is None:
        raise SqlServerError(3701, "database", name)
    if database.database_id < FIRST_DATABASE_ID:
        raise SqlServerError(9663)
    _drop_contents(tx, database, delivery)
    tx.put(databases, name.lower(), None)
    tx.write("catalog.database", database.database_id, None)
    changes = database.catalog.changes
    changes.count()
    tx.on_rollback(changes.count)


def _drop_contents(tx: Transaction, database: Database, delivery: Delivery) -> None:
    """Remove conversations and objects from the store, and the whole database from memory."""
    catalog = database.catalog
    for endpoint in list(database.endpoints.values()):
        delivery.remove(tx, endpoint)
    for queue in catalog.queues.values():
        ddl.write(tx, catalog, "queue", queue.object_id, None)
        tx.on_commit(queue.unwatch)
    for kind, identifiers in (
        ("message_type", [message_type_.message_type_id for message_type_ in catalog.message_types.values()]),
        ("contract", [contract.service_contract_id for contract in catalog.contracts.values()]),
        ("service", [service.service_id for service in catalog.services.values()]),
        ("route", [route.route_id for route in catalog.routes.values()]),
        (
            "remote_service_binding",
            [
                remote_service_binding.remote_service_binding_id
                for remote_service_binding in catalog.remote_service_bindings.values()
            ],
        ),
        ("priority", [priority.priority_id for priority in catalog.priorities.values()]),
        ("user", [user.principal_id for user in catalog.principals.users.values()]),
        ("certificate", [certificate.certificate_id for certificate in catalog.principals.certificates.values()]),
    ):
        for identifier in identifiers:
            ddl.write(tx, catalog, kind, identifier, None)
