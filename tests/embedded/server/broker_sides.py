"""Endpoints with real keys for the tests of what brokers say to each other."""

import os
import time

from harness.embedded.broker.definitions import Encryption
from harness.embedded.broker.keys import CertificateText, Protection
from harness.embedded.server.cryptography import ServerKeys


class EndpointLink:
    """The link of an endpoint that accepts the certificates in `known`."""

    def __init__(self, name: str, encryption: Encryption = "REQUIRED") -> None:
        self.encryption = encryption
        self.keys = ServerKeys(os.urandom(32))
        self.master_key = self.keys.new_master_key()
        now_ns = time.time_ns()
        text = CertificateText(name, now_ns - 10**9, now_ns + 10**12)
        self.pair = self.keys.new_certificate(text, Protection(self.master_key))
        self.known: list[bytes] = []
        self.complaints = self

    def write(self, kind: str, text: str) -> str:
        return text

    def presented_certificate(self) -> bytes | None:
        return self.pair.blob

    def own_refusal(self) -> str:
        return ""

    def refusal_of_owner(self, certificate: bytes | None) -> str:
        return ""

    def refusal_of(self, certificate: bytes | None) -> str:
        return "" if certificate in self.known else "the certificate is not known"

    def sign(self, data: bytes) -> bytes:
        return self.keys.sign(self.pair.private_key, Protection(self.master_key), data)

    def verify(self, certificate: bytes, signature: bytes, data: bytes) -> None:
        self.keys.verify(certificate, signature, data)


class Impostor(EndpointLink):
    """Presents a certificate whose private key it does not have."""

    def __init__(self, certificate: bytes) -> None:
        super().__init__("impostor")
        self.certificate = certificate

    def presented_certificate(self) -> bytes | None:
        return self.certificate


def acquainted(*links: EndpointLink) -> None:
    """Let all these accept each other's certificates."""
    for link in links:
        link.known = [other.pair.blob for other in links if other is not link]
