"""A self-signed certificate for TLS, made at start and never stored, as SQL Server makes one if it is given none.

`Encrypt=yes;TrustServerCertificate=yes` works with it; a client that validates certificates refuses it.
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from pathlib import Path

from harness.embedded.tds.tls import server_context

VALIDITY = datetime.timedelta(days=365)


def self_signed(name: str) -> bytes:
    """Private key and certificate in PEM. An elliptic curve, because an RSA key delays the start noticeably."""
    # Imported here because loading it takes longer than the rest of the module.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + certificate.public_bytes(pem)


def self_signed_context(name: str) -> ssl.SSLContext:
    # `ssl` loads certificates only from files; this one is readable by its owner alone and removed at once.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.pem"
        path.touch(mode=0o600)
        path.write_bytes(self_signed(name))
        return server_context(str(path), str(path))
