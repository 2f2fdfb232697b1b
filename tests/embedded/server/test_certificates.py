"""The certificate that clients see: self-signed, or one of the operator's."""

import contextlib
import ssl
from pathlib import Path

import pytest

from harness.embedded.server.authentication import given_context, self_signed, self_signed_context
from harness.failures import UsageFailure


def test_clients_can_verify_a_certificate_that_is_given(tmp_path: Path) -> None:
    begin = b"-----BEGIN CERTIFICATE-----"
    key, _, rest = self_signed("mine").partition(begin)
    certificate, key_file = tmp_path / "mine.pem", tmp_path / "key.pem"
    certificate.write_bytes(begin + rest)
    key_file.write_bytes(key)
    verifying = ssl.create_default_context(cafile=certificate)
    assert shake_hands(given_context(certificate, key_file), verifying) == "TLSv1.2"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(self_signed_context("mine"), verifying)
    with pytest.raises(UsageFailure, match="--certificate-key"):
        given_context(certificate, None)


def shake_hands(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> str | None:
    """The version of TLS that both agree on; the error of the client if it refuses the server."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(there, back, server_side=True)
    client = client_context.wrap_bio(back, there, server_hostname="localhost")
    for side in (client, server) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.version()
