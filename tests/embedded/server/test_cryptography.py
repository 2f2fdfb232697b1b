"""Keys at rest: each is protected by the one above it, or by a password."""

import os

import pytest

from harness.embedded.broker.keys import CertificateText, Protection
from harness.embedded.server.cryptography import ServerKeys

TEXT = CertificateText("subject", 0, 2_000_000_000_000_000_000)


def test_a_master_key_is_had_again_with_its_password_after_the_key_of_the_server_is_lost():
    before, after = (ServerKeys(os.urandom(32)) for _ in range(2))
    master_key = before.new_master_key()
    locked = before.lock_master_key(master_key, "Master!1")
    blob, private_key = before.new_certificate(TEXT, Protection(master_key))
    with pytest.raises(ValueError, match="cannot be decrypted"):
        after.sign(private_key, Protection(master_key), b"data")
    with pytest.raises(ValueError, match="cannot be decrypted"):
        after.unlock_master_key(locked, "wrong")
    again = after.unlock_master_key(locked, "Master!1")
    after.verify(blob, after.sign(private_key, Protection(again), b"data"), b"data")
