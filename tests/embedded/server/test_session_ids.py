"""Ids of sessions are used again."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.server.session_ids import SessionIds
from harness.embedded.tsql.instance.instance import SYSTEM_SPIDS, USER_SPIDS
from tests.embedded.server.test_tds_listener import log_in
from tests.waiting import wait_until


@given(st.lists(st.integers(0, 30)))
def test_a_new_session_gets_the_lowest_free_id(choices):
    ids, in_use = SessionIds(), set()
    for choice in choices:
        if choice < len(in_use):
            spid = sorted(in_use)[choice]
            in_use.remove(spid)
            ids.give_back(spid)
        else:
            spid = ids.take()
            assert spid == min(set(range(51, 51 + len(in_use) + 1)) - in_use)
            in_use.add(spid)


def test_ids_fit_into_16_bits_and_those_of_users_and_of_the_system_differ():
    ids = SessionIds()
    taken = [ids.take() for _ in USER_SPIDS]
    with pytest.raises(SqlServerError, match="maximum number of '29950' user connections"):
        ids.take()
    ids.give_back(77)
    assert ids.take() == 77
    assert not set(taken) & set(SYSTEM_SPIDS)
    assert max(*taken, *SYSTEM_SPIDS) == 32_767  # @@SPID is a smallint


def spid_of_a_connection(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        log_in(client)
        client.sendall(bytes.fromhex("0601000800000100"))
        return int.from_bytes(client.recv(8, socket.MSG_WAITALL)[4:6], "big")


@pytest.mark.process
def test_a_closed_connection_leaves_its_id_to_the_next(canned_port):
    first = spid_of_a_connection(canned_port)
    wait_until(lambda: spid_of_a_connection(canned_port) == first)
