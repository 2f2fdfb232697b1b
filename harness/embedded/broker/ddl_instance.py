"""CREATE and DROP of what belongs to the instance: databases, logins, the Service Broker endpoint."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.embedded.broker.objects import BrokerEndpoint
from harness.embedded.broker.security import Login
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.engine import Transport
    from harness.embedded.broker.routing import Router
    from harness.embedded.broker.transmission import Transmitter

FIRST_DATABASE_ID = 5
FIRST_LOGIN_ID = 256
BROKER_ENDPOINT_ID = 65536


class InstanceStatements:
    databases: dict[str, Database]
    logins: dict[str, Login]
    broker_endpoint: BrokerEndpoint | None
    transport: Transport | None
    router: Router
    transmitter: Transmitter

    def log(self, text: str) -> None:
        raise NotImplementedError

    def add_database(
        self, name: str, database_id: int, guid: str | None = None, handle_prefix: bytes | None = None
    ) -> Database:
        raise NotImplementedError

    # DATABASE

    def create_database(self, tx: Transaction, name: str) -> Database:
        """A new database; its broker is enabled."""
        if name.lower() in self.databases:
            raise SqlServerError(1801, name)
        taken = (database.database_id for database in self.databases.values())
        database = self.add_database(name, max(FIRST_DATABASE_ID, max(taken) + 1))
        tx.on_rollback(partial(self.databases.pop, name.lower(), None))
        database.store(tx)
        database.add_auto_created_route(tx)
        return database

    def drop_database(self, tx: Transaction, name: str) -> None:
        database = self.databases.get(name.lower())
        if database is None:
            raise SqlServerError(3701, "database", name)
        if database.database_id < FIRST_DATABASE_ID:
            raise SqlServerError(9663)
        database.drop_everything(tx)
        tx.on_rollback(partial(self.databases.__setitem__, name.lower(), database))
        del self.databases[name.lower()]
        tx.write("catalog.database", database.database_id, None)
        self.router.changed()
        tx.on_rollback(self.router.changed)

    # LOGIN

    def create_login(
        self, tx: Transaction, name: str, *, password: str | None = None, from_certificate: str | None = None
    ) -> Login:
        if name.lower() in self.logins:
            raise SqlServerError(15025, name)
        taken = (login.principal_id for login in self.logins.values())
        login = Login(name, max(FIRST_LOGIN_ID, max(taken, default=0) + 1), password, from_certificate)
        self.logins[name.lower()] = login
        tx.on_rollback(partial(self.logins.pop, name.lower(), None))
        self._store_login(tx, login)
        return login

    def alter_login(self, tx: Transaction, name: str, *, password: str | None, enable: bool | None) -> None:
        """ALTER LOGIN: None leaves a property as it is."""
        login = self.logins.get(name.lower())
        if login is None:
            raise SqlServerError(15151, "alter", "login", name)
        tx.on_rollback(partial(self._set_login, login, login.password, login.is_disabled))
        disabled = login.is_disabled if enable is None else not enable
        self._set_login(login, login.password if password is None else password, disabled)
        self._store_login(tx, login)

    @staticmethod
    def _set_login(login: Login, password: str | None, is_disabled: bool) -> None:
        login.password, login.is_disabled = password, is_disabled

    @staticmethod
    def _store_login(tx: Transaction, login: Login) -> None:
        row = (login.name, login.password, login.from_certificate, login.is_disabled)
        tx.write("catalog.login", login.principal_id, row)

    def drop_login(self, tx: Transaction, name: str) -> None:
        login = self.logins.get(name.lower())
        if login is None:
            raise SqlServerError(15151, "drop", "login", name)
        del self.logins[name.lower()]
        tx.on_rollback(partial(self.logins.__setitem__, name.lower(), login))
        tx.write("catalog.login", login.principal_id, None)

    # ENDPOINT

    def create_endpoint(
        self,
        tx: Transaction,
        name: str,
        *,
        state: str = "STOPPED",
        port: int,
        ip: str | None = None,
        authentication: str = "WINDOWS NEGOTIATE",
        certificate: str | None = None,
        encryption: str = "REQUIRED",
        algorithm: str = "AES",
    ) -> BrokerEndpoint:
        """FOR SERVICE_BROKER: one an instance. `ip` None stands for ALL."""
        if self.broker_endpoint is not None:
            raise SqlServerError(7862)
        self._require_certificate(certificate)
        endpoint = BrokerEndpoint(
            name, BROKER_ENDPOINT_ID, state, port, ip, authentication, certificate, encryption, algorithm
        )
        self._set_endpoint(tx, endpoint)
        return endpoint

    def alter_endpoint(self, tx: Transaction, name: str, **options: Any) -> None:
        """`options` as of `create_endpoint`: "All properties stay the same unless specified"; grants stay too."""
        before = self._endpoint("alter", name)
        self._require_certificate(options.get("certificate"))
        self._set_endpoint(tx, replace(before, **options))

    def drop_endpoint(self, tx: Transaction, name: str) -> None:
        self._endpoint("drop", name)
        self._set_endpoint(tx, None)

    def grant_connect(self, tx: Transaction, endpoint: str, login: str) -> None:
        """GRANT CONNECT ON ENDPOINT::endpoint TO login."""
        key = login.lower()
        if key != "public" and key not in self.logins:
            raise SqlServerError(15151, "find", "login", login)
        self.set_connect(tx, endpoint, key, True)

    def set_connect(self, tx: Transaction, endpoint: str, login: str, may: bool) -> None:
        """Whether a login, in lower case, may connect to the endpoint."""
        granted = self._endpoint("find", endpoint).connect_granted_to
        if (login in granted) == may:
            return
        change, undo = (granted.add, granted.discard) if may else (granted.discard, granted.add)
        change(login)
        tx.on_rollback(partial(undo, login))
        self._store_endpoint(tx)

    def _endpoint(self, verb: str, name: str) -> BrokerEndpoint:
        if self.broker_endpoint is None or self.broker_endpoint.name.lower() != name.lower():
            raise SqlServerError(15151, verb, "endpoint", name)
        return self.broker_endpoint

    def _require_certificate(self, name: str | None) -> None:
        if name is not None and self.databases["master"].certificate(name) is None:
            raise SqlServerError(15151, "find", "certificate", name)

    def _set_endpoint(self, tx: Transaction, endpoint: BrokerEndpoint | None) -> None:
        before = self.broker_endpoint
        tx.on_rollback(partial(setattr, self, "broker_endpoint", before))
        self.broker_endpoint = endpoint
        self._store_endpoint(tx)
        tx.on_commit(self.listen)
        tx.on_commit(self.transmitter.try_all_again)
        self.router.changed()
        tx.on_rollback(self.router.changed)

    def _store_endpoint(self, tx: Transaction) -> None:
        endpoint = self.broker_endpoint
        if endpoint is None:
            tx.write("catalog.endpoint", BROKER_ENDPOINT_ID, None)
            return
        row = (
            endpoint.name,
            endpoint.state,
            endpoint.port,
            endpoint.ip,
            endpoint.authentication,
            endpoint.certificate,
            endpoint.encryption,
            endpoint.algorithm,
            tuple(sorted(endpoint.connect_granted_to)),
        )
        tx.write("catalog.endpoint", BROKER_ENDPOINT_ID, row)

    def listen(self) -> None:
        """The transport listens while the endpoint is STARTED."""
        if self.transport is None:
            return
        self.transport.stop_listening()
        endpoint = self.broker_endpoint
        if endpoint is None or endpoint.state != "STARTED":
            return
        try:
            self.transport.listen(endpoint.ip or "0.0.0.0", endpoint.port)
        except OSError as error:
            self.log(f"The Service Broker endpoint cannot listen on port {endpoint.port}: {error}")

    # The transport's handshake

    def presented_certificate(self) -> bytes | None:
        """The blob of the endpoint's certificate."""
        endpoint = self.broker_endpoint
        if endpoint is None or endpoint.certificate is None:
            return None
        certificate = self.databases["master"].certificate(endpoint.certificate)
        return certificate.blob if certificate is not None else None

    def accepts_certificate(self, blob: bytes | None) -> bool:
        """Whether a peer that presents this certificate may connect: its owner's login needs CONNECT."""
        endpoint = self.broker_endpoint
        if endpoint is None or endpoint.state != "STARTED":
            return False
        if "CERTIFICATE" not in endpoint.authentication.upper():
            return True
        if blob is None:
            return False
        principals = self.databases["master"].principals
        for certificate in principals.certificates.values():
            if certificate.blob == blob:
                user = principals.users.get(certificate.owner.lower())
                if user is None or user.login is None:
                    return True  # dbo's: our own
                granted = endpoint.connect_granted_to
                return "public" in granted or user.login.lower() in granted
        return False
