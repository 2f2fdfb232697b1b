"""TLS inside PRELOGIN: [MS-TDS] section 2.2.6.5. PRELOGIN packets carry the handshake; what follows is plain TLS.

Only up to TLS 1.2: with 1.3 the server would send session tickets after the handshake, when the client no longer
expects PRELOGIN packets. SQL Server offers 1.3 only with TDS 8.0, where TLS comes first.
"""

from __future__ import annotations

import ssl

from harness.embedded.tds.wire import TdsProtocolError

_READ_SIZE = 64 * 1024


def server_context(certificate_file: str, key_file: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET
    context.load_cert_chain(certificate_file, key_file)
    return context


class TlsLayer:
    """The server's end of TLS between two byte streams."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False

    def shake_hands(self, data: bytes) -> bytes:
        """Take the client's next part of the handshake and return the answer."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TdsProtocolError(f"TLS handshake: {error}") from error
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while part := self._tls.read(_READ_SIZE):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TdsProtocolError(f"TLS: {error}") from error
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()
