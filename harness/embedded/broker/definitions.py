"""Definitions: the objects of CREATE statements (message types, routes, certificates, ...) and the terms of a dialog.

Secrets stand here in the form in which `keys` protects them. The rules are kept with and without cryptography: an
encrypted dialog needs a master key, a remote service binding and a certificate of the bound user; a peer needs a
certificate that a login of master owns.
"""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol


class Validation(StrEnum):
    """sys.service_message_types.validation; `BINARY` is what a real server calls NONE there."""

    BINARY = "N"
    EMPTY = "E"
    XML = "X"


@dataclass(slots=True, eq=False)
class MessageType:
    name: str
    message_type_id: int
    validation: Validation
    owner: str = "dbo"
    schema_collection: str = ""  # of VALID_XML: its key in the catalog


@dataclass(frozen=True, slots=True)
class MessageUsage:
    """sys.service_contract_message_usages"""

    message_type: MessageType
    is_sent_by_initiator: bool
    is_sent_by_target: bool


@dataclass(slots=True, eq=False)
class Contract:
    name: str
    service_contract_id: int
    usages: dict[str, MessageUsage]  # by the message type's name
    owner: str = "dbo"


@dataclass(slots=True, eq=False)
class Route:
    name: str
    route_id: int
    remote_service_name: str | None
    broker_instance: str | None  # upper case
    lifetime: int | None  # UTC ns at which it expires
    address: str  # TCP://host:port, LOCAL or TRANSPORT
    mirror_address: str | None = None
    owner: str = "dbo"


@dataclass(slots=True, eq=False)
class RemoteServiceBinding:
    name: str
    remote_service_binding_id: int
    remote_service_name: str
    user: str
    is_anonymous_on: bool = False
    owner: str = "dbo"


@dataclass(slots=True, eq=False)
class Priority:
    """CREATE BROKER PRIORITY: sys.conversation_priorities; None means ANY."""

    name: str
    priority_id: int
    contract: str | None
    local_service: str | None
    remote_service: str | None
    level: int


@dataclass(slots=True, eq=False)
class EventNotification:
    """CREATE EVENT NOTIFICATION."""

    name: str
    object_id: int
    events: tuple[str, ...]  # QUEUE_ACTIVATION, CREATE_TABLE, AUDIT_LOGIN ...
    service: str
    broker_instance: str
    creator: str | None  # the login that has made it WITH FAN_IN
    create_time_ns: int
    conversation_handle: str | None = None


class Watched(Protocol):
    """What has event notifications: a queue, a database, the server."""

    @property
    def object_id(self) -> int: ...
    @property
    def notifications(self) -> dict[str, EventNotification]: ...  # by name, lower case


@dataclass(frozen=True, slots=True)
class WatchedWhole:
    """A database or the server: `object_id` is a number that no queue has."""

    object_id: int
    notifications: dict[str, EventNotification] = field(default_factory=dict)


Encryption = Literal["DISABLED", "SUPPORTED", "REQUIRED"]


@dataclass(slots=True, eq=False)
class BrokerEndpoint:
    """CREATE ENDPOINT ... FOR SERVICE_BROKER: sys.service_broker_endpoints, sys.tcp_endpoints."""

    name: str
    endpoint_id: int
    state: str  # STARTED, STOPPED or DISABLED
    port: int
    ip: str | None  # None: ALL
    authentication: str  # as written, e.g. `CERTIFICATE`, `WINDOWS NEGOTIATE`
    certificate: str | None
    encryption: Encryption = "REQUIRED"
    algorithm: str = "AES"
    connect_granted_to: set[str] = field(default_factory=set)  # logins, lower case


@dataclass(slots=True)
class Login:
    """A server principal: sys.server_principals."""

    name: str
    principal_id: int
    password_hash: bytes | None = None  # what the engine's `hash_password` made of it
    from_certificate: str | None = None
    is_disabled: bool = False
    default_database: str = "master"


@dataclass(slots=True)
class User:
    """A database principal: sys.database_principals."""

    name: str
    principal_id: int
    login: str | None = None


@dataclass(slots=True)
class Schema:
    """sys.schemas"""

    name: str
    schema_id: int
    owner: str = "dbo"  # a user of the database


@dataclass(slots=True)
class XmlSchemaCollection:
    """sys.xml_schema_collections"""

    name: str  # with its schema
    xml_collection_id: int
    text: str  # its schemas


@dataclass(slots=True)
class Certificate:
    """sys.certificates; CERTENCODED returns `blob`, FROM BINARY takes it."""

    name: str
    certificate_id: int
    subject: str
    owner: str  # a user of the database
    blob: bytes
    private_key: bytes | None  # protected by the database's master key, or by a password
    start_ns: int  # UTC
    expiry_ns: int
    is_active_for_begin_dialog: bool = True
    has_password: bool = False  # which protects the private key

    @property
    def has_usable_key(self) -> bool:
        """Whether it has a private key that the master key protects, which Service Broker needs."""
        return self.private_key is not None and not self.has_password

    @property
    def thumbprint(self) -> bytes:
        return hashlib.sha1(self.blob, usedforsecurity=False).digest()

    def is_valid(self, now_ns: int) -> bool:
        return self.start_ns <= now_ns < self.expiry_ns


@dataclass(slots=True)
class Principals:
    """The principals and secrets of one database."""

    users: dict[str, User] = field(default_factory=dict)  # by name, lower case
    certificates: dict[str, Certificate] = field(default_factory=dict)  # by name, lower case
    master_key: bytes | None = None  # protected by the key of the server; None if it is not, or if there is no key
    locked_master_key: bytes | None = None  # the same, protected by a password; None if it was made without one

    @property
    def has_master_key(self) -> bool:
        return self.master_key is not None or self.locked_master_key is not None

    @property
    def is_master_key_encrypted_by_server(self) -> bool:
        return self.master_key is not None

    def certificates_of(self, user: str) -> list[Certificate]:
        """Find the user's certificates, latest expiry first."""
        owned = [certificate for certificate in self.certificates.values() if certificate.owner.lower() == user.lower()]
        return sorted(owned, key=lambda certificate: -certificate.expiry_ns)

    def certificate(self, name: str) -> Certificate | None:
        return self.certificates.get(name.lower())

    def principal_id(self, user: str) -> int:
        """sys.database_principals.principal_id; dbo is 1."""
        principal = self.users.get(user.lower())
        return principal.principal_id if principal is not None else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationOptions:
    """The ACTIVATION clause; None keeps a setting. `drop` means ACTIVATION (DROP)."""

    status: bool | None = None
    procedure: str | None = None  # three-part name, quoted: [db].[dbo].[procedure]
    max_queue_readers: int | None = None
    execute_as: str | None = None  # SELF, OWNER or a user
    drop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The WITH clause of CREATE QUEUE and ALTER QUEUE; None keeps a setting."""

    status: bool | None = None
    retention: bool | None = None
    activation: ActivationOptions | None = None
    poison_message_handling: bool | None = None


@dataclass(slots=True, eq=False)
class DialogTerms:
    """The terms of one side of a conversation: the part of its endpoint that never changes."""

    conversation_handle: str
    conversation_id: str
    is_initiator: bool
    service_name: str
    service_id: int
    contract: Contract
    far_service: str
    lifetime: int | None  # UTC ns; None: the dialog never expires (int max seconds)
    is_encrypted: bool
    priority: int
    is_system: bool = False
