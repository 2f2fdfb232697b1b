"""The reader outside the server: what it does with messages that fail, and with dialogs that end."""

from types import SimpleNamespace

import pytest

from harness.activator.reader import Reader

pytestmark = pytest.mark.process

REFUSING = """
CREATE TRIGGER dbo.Refusing ON dbo.messageDrop AFTER INSERT AS
BEGIN
    IF EXISTS (SELECT 1 FROM inserted WHERE messageVal = 0x21)
        THROW 50000, 'not yet', 1;
END;
"""


def test_a_reader_keeps_what_fails_rolls_back_what_it_must_and_ends_dialogs(site):
    with site.connect() as connection, site.connect() as readers:
        connection.execute("DROP TABLE dbo.messageDrop;")
        connection.execute(
            "CREATE TABLE dbo.messageDrop (id bigint IDENTITY NOT NULL CONSTRAINT PK_messageDrop PRIMARY KEY, "
            "messageVal varbinary(2000) NOT NULL);"
        )
        site.send(connection, b"1", None, b"3")  # NULL does not fit into the table
        failed = site.send(connection, b"4", last=False)
        connection.execute(f"END CONVERSATION '{failed}' WITH ERROR = 5 DESCRIPTION = 'enough';")
        Reader(readers, "dbo.Incoming", top=10, timeout_ms=1).run()
        assert sorted(site.stored(connection)) == [b"1", b"3", b"4"]
        errors = connection.execute("SELECT message_type_name, error_message FROM dbo.messageErrors;").fetchall()
        assert {kind.rpartition("/")[2]: text.partition(" '")[0] for kind, text in errors} == {
            "DEFAULT": "Cannot insert the value NULL into column",
            "Error": "The other side ended the conversation with an error.",
        }
        states = connection.execute(
            "SELECT e.state FROM sys.conversation_endpoints AS e JOIN sys.services AS s ON s.service_id = e.service_id "
            "WHERE s.name = 'Receiver';"
        ).fetchall()
        assert {state for (state,) in states} == {"CD"}


def test_a_message_that_dooms_its_transaction_returns_to_the_queue_and_is_received_again(site, capsys, monkeypatch):
    with site.connect() as connection, site.connect() as readers:
        connection.execute(REFUSING)
        site.send(connection, b"!", b"a", b"b")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                connection.execute("DROP TRIGGER dbo.Refusing;")

        # Its own `time`: the module's is that of every thread of the process.
        monkeypatch.setattr("harness.activator.reader.time", SimpleNamespace(sleep=pause))
        Reader(readers, "dbo.Incoming", top=10, timeout_ms=1).run()
        assert pauses == [0.1, 0.2]
        assert site.stored(connection) == [b"!", b"a", b"b"]
        received = connection.execute("SELECT messages FROM dbo.receiveCount;").fetchall()
        assert [count for (count,) in received] == [1, 1, 1, 1]  # the batch was rolled back
        assert "a message was rolled back: not yet" in capsys.readouterr().err
