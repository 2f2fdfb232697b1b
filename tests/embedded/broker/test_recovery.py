"""What an instance does at its start with rows of its disk that it cannot read, and where dialogs lie in its files."""

import pytest

from tests.embedded.broker.world import bodies


@pytest.fixture
def conversations(here):
    """Two handles of initiators whose messages lie in the queue: b"1" of one, b"2" of the other."""
    handles = here.begin(), here.begin()
    for handle, body in zip(handles, (b"1", b"2"), strict=True):
        here.send(handle, body)
    here.world.run_for(1)
    return handles


@pytest.mark.parametrize("table", ["endpoint", "sysdercv"])
def test_a_conversation_that_cannot_be_read_is_kept_with_its_messages_and_others_go_on(here, conversations, table):
    unreadable, whole = conversations
    conversation_id = here.endpoint(unreadable).terms.conversation_id
    target = here.engine.databases.conversations[conversation_id, False].terms.conversation_handle
    here.store.rows[f"broker.{here.db.database_id}.{table}", target] = ("not", "a", "row")
    here.crash()
    here.send(whole, b"3")
    assert bodies(here.receive_all()) == [b"2", b"3"]
    aside = {table for table, _ in here.store.rows if table.startswith("aside.")}
    assert len(aside) == here.engine.rows_set_aside == 3, "its endpoint, the next to receive, and its message"
    assert all("Recovery cannot read broker." in line for line in here.engine.error_log.lines)
    here.crash()
    assert not here.engine.rows_set_aside


def test_dialogs_that_are_begun_when_none_is_left_lie_where_the_first_ones_lay(here):
    first = here.begin()
    place = here.endpoint(first).ordinal, here.endpoint(first).page
    here.end(first, cleanup=True)
    again = here.endpoint(here.begin())
    assert (again.ordinal, again.page) == place
