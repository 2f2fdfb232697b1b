"""Dialog security: which keys an encrypted dialog needs, and the sealing of its frames.

Only frames between instances are sealed: "messages exchanged with services in the same instance are not encrypted". The
initiator agrees keys with the owner of the bound user's certificate and offers them in the header of its messages until
the first is acknowledged; its own certificate and signature are in the offer unless the dialog is anonymous. Both sides
keep the keys, protected by the master keys of their databases. `keys` decides whether anything is computed at all.
"""

from harness.embedded.broker.database import ConversationEndpoint, Local
from harness.embedded.broker.definitions import Certificate, Principals
from harness.embedded.broker.delivery import Refusal
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.frames import DialogHeader, Frame
from harness.embedded.broker.keys import Dialog, OwnKey, Session
from harness.embedded.errors import SqlServerError


class Undeliverable(Exception):
    """A message that is dropped without an answer; the text is the reason."""


class _Unsecured(Exception):
    """A dialog has not what it needs to be encrypted; the text is the transmission status."""

    def __init__(self, number: int, *arguments: object) -> None:
        super().__init__(SqlServerError(number, *arguments).text)


class DialogSecurity:
    def __init__(self, environment: Environment) -> None:
        self._clock = environment.clock
        self._keys = environment.keys
        self._store = environment.store

    # Sending

    def prepare(self, endpoint: ConversationEndpoint) -> str:
        """Get the keys that the endpoint's messages need; return why it cannot, empty if they can be sent."""
        try:
            if endpoint.terms.is_encrypted and endpoint.terms.is_initiator:
                self._prepare_initiator(endpoint)
            elif endpoint.terms.is_encrypted and self._keys.encrypts and endpoint.session is None:
                raise _Unsecured(28054, endpoint.database.name, endpoint.database.catalog.master_key_error() or 32)
        except _Unsecured as reason:
            return str(reason)
        except ValueError as error:
            return f"Dialog security is unavailable for this conversation: {error}."
        return ""

    def _prepare_initiator(self, endpoint: ConversationEndpoint) -> None:
        catalog, now_ns = endpoint.database.catalog, self._clock.utc_ns()
        principals, terms = catalog.principals, endpoint.terms
        if (code := catalog.master_key_error()) is not None or principals.master_key is None:
            raise _Unsecured(28054, catalog.name, code) if principals.has_master_key else _Unsecured(28050)
        binding = catalog.binding_for(terms.far_service)
        if binding is None:
            raise _Unsecured(9727)
        theirs = _certificate_for_dialogs(principals, binding.user, now_ns)
        key = None
        if not binding.is_anonymous_on:
            own = _certificate_for_dialogs(principals, endpoint.service.owner, now_ns, with_key=True)
            key = _own_key(principals, own)
        exchange, recipient = endpoint.outgoing.key_exchange, theirs.blob
        is_offered = exchange is not None and self._keys.is_recipient(exchange, recipient)
        if not endpoint.first_is_acknowledged and not is_offered:
            self._offer(endpoint, key, recipient, principals.master_key)

    def _offer(self, endpoint: ConversationEndpoint, key: OwnKey | None, recipient: bytes, master_key: bytes) -> None:
        terms, guid = endpoint.terms, endpoint.database.catalog.service_broker_guid
        dialog = Dialog(terms.conversation_id, terms.far_service, terms.service_name, guid)
        session, exchange = self._keys.offer(dialog, key, recipient, master_key)
        endpoint.outgoing.key_exchange, endpoint.outgoing.header = exchange, None
        endpoint.session = session
        if session is not None:
            # A crash may lose the row: the same offer is then made again.
            row = (session.protected(master_key),)
            self._store.commit_lazily([(endpoint.database.session_table, terms.conversation_handle, row)])

    # Arriving

    def admit(self, destination: Local, conversation_id: str, header: DialogHeader) -> tuple[Session | None, bytes]:
        """Check who begins a dialog, and take the keys that he offers: as such and as they may be stored.

        SQL Server drops a message without an answer if a key or certificate is missing."""
        service, principals = destination.service, destination.database.catalog.principals
        senders, exchange = service.senders, header.key_exchange
        certificate = exchange.certificate if exchange is not None else None
        if not header.is_encrypted or exchange is None:
            if header.is_encrypted and self._keys.encrypts:
                raise Undeliverable("it is encrypted and offers no keys")
            if "public" not in senders:
                raise Refusal(8494, service.name)
            return None, b""
        if principals.master_key is None:
            raise Undeliverable("the database has no master key")
        if certificate is not None:
            self._check_sender(destination, certificate)
        elif "public" not in senders:
            raise Refusal(8494, service.name)
        keys = [
            candidate
            for candidate in principals.certificates.values()
            if candidate.has_usable_key and self._keys.is_recipient(exchange, candidate.blob)
        ]
        if not keys and self._keys.encrypts:
            raise Undeliverable("the certificate for which it is encrypted is not here, or has no private key")
        dialog = Dialog(conversation_id, header.to_service, header.from_service, header.from_broker_instance)
        try:
            session = self._keys.accept(dialog, exchange, _own_key(principals, keys[0])) if keys else None
        except ValueError as error:
            raise Undeliverable(f"its keys are refused: {error}") from None
        return session, session.protected(principals.master_key) if session is not None else b""

    @staticmethod
    def _check_sender(destination: Local, certificate: bytes) -> None:
        service, principals = destination.service, destination.database.catalog.principals
        certificates = [
            certificate_ for certificate_ in principals.certificates.values() if certificate_.blob == certificate
        ]
        if not certificates:
            raise Undeliverable("the sender's certificate is not known")
        owners, senders = {one.owner.lower() for one in certificates}, service.senders
        if "public" not in senders and "dbo" not in owners and not owners & senders:
            raise Refusal(8494, service.name)

    def open(self, endpoint: ConversationEndpoint, frame: Frame) -> None:
        """Undo the seal of a frame of an encrypted dialog; ValueError if the far side has not made it so."""
        if not self._keys.encrypts:
            return
        if endpoint.session is None:
            raise ValueError("the keys of the dialog are not here")
        endpoint.session.open(frame)


def _certificate_for_dialogs(principals: Principals, user: str, now_ns: int, *, with_key: bool = False) -> Certificate:
    """The certificate of a user that can begin a dialog now, with the latest expiry; _Unsecured says why none can."""
    principal_id = principals.principal_id(user)
    owned = principals.certificates_of(user)
    usable = [certificate for certificate in owned if not with_key or certificate.has_usable_key]
    valid = [certificate for certificate in usable if certificate.is_valid(now_ns)]
    active = [certificate for certificate in valid if certificate.is_active_for_begin_dialog]
    if active:
        return active[0]
    if not owned:
        raise _Unsecured(9731, principal_id)
    if not usable:
        raise _Unsecured(9737 if owned[0].private_key is not None else 9733, principal_id)
    if not valid:
        raise _Unsecured(28024 if usable[0].start_ns > now_ns else 28025, principal_id)
    raise _Unsecured(9767, principal_id)


def _own_key(principals: Principals, certificate: Certificate) -> OwnKey:
    assert certificate.private_key is not None and principals.master_key is not None, "checked before"
    return OwnKey(certificate.blob, certificate.private_key, principals.master_key)
