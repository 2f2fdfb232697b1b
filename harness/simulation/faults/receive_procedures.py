"""T-SQL of the scenarios: a procedure that receives and records what it read, failing ones, and the operator's work.

The procedure has the shape of the lab's. In addition it keeps its transaction open for a while, records in
`dbo.groupReads` which conversation group it had meanwhile, and rolls back when it finds poison: a message with a mark
in the four reserved bytes of the lab's bodies.
"""

from harness.files.workload_file import Names
from harness.simulation.faults.fault_plan import Failure, Receiver

QUEUE = Names().target_queue
LABS_PROCEDURE = "dbo.SRPerf_Queue_LabTest"
PROCEDURE = "dbo.FaultsReceive"
POISON = b"POIS"
POISON_OFFSET = 12  # of the reserved field in a body: harness/load/payload.py
_IS_POISON = f"SUBSTRING(message_body, {POISON_OFFSET + 1}, {len(POISON)}) = 0x{POISON.hex()}"
_IS_OURS = f"message_type_name = N'{Names().message_type}'"
_STORE = f"""\
INSERT INTO dbo.messageDrop (messageVal)
        SELECT CAST(message_body AS varbinary(2000)) FROM @receive
        WHERE {_IS_OURS}"""
_IN_ORDER = "ORDER BY conversation_handle, message_sequence_number;"

GROUP_READS = """\
CREATE TABLE dbo.groupReads
(
    id bigint IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    conversation_group_id uniqueidentifier NOT NULL,
    session_id int NOT NULL,
    began_at datetime2(7) NOT NULL,
    ended_at datetime2(7) NOT NULL
);
"""

_VARIABLES = """\
    SET NOCOUNT ON;
    DECLARE @receive table
    (
        conversation_group_id uniqueidentifier NOT NULL,
        conversation_handle uniqueidentifier NOT NULL,
        message_sequence_number bigint NOT NULL,
        message_type_name nvarchar(256) NOT NULL,
        message_body varbinary(max) NULL
    );
    DECLARE @handle uniqueidentifier;"""

_COLUMNS = (
    "conversation_group_id, conversation_handle, message_sequence_number, message_type_name, message_body "
    f"FROM {QUEUE} INTO @receive"
)


def receiving(receiver: Receiver) -> str:
    """Return the batch that creates the procedure of a scenario."""
    hold = f"        WAITFOR DELAY '00:00:{receiver.hold_s:06.3f}';\n" if receiver.hold_s else ""
    return f"""\
CREATE OR ALTER PROCEDURE {PROCEDURE}
AS
BEGIN
{_VARIABLES}
    DECLARE @messages int;
    DECLARE @began_at datetime2(7);
    DECLARE @ended_at datetime2(7);
    WHILE 1 = 1
    BEGIN
        BEGIN TRANSACTION;
        WAITFOR (RECEIVE TOP ({receiver.top}) {_COLUMNS}), TIMEOUT 3000;
        SET @messages = @@ROWCOUNT;
        IF @messages = 0
        BEGIN
            COMMIT TRANSACTION;
            BREAK;
        END;
        SET @began_at = SYSUTCDATETIME();
{hold}\
        {_STORE}
        {_IN_ORDER}
        SET @ended_at = SYSUTCDATETIME();
        IF EXISTS (SELECT 1 FROM @receive WHERE {_IS_POISON})
        BEGIN
            ROLLBACK TRANSACTION;
            -- The table variable survives the rollback, so this reading is recorded too.
            INSERT INTO dbo.groupReads (conversation_group_id, session_id, began_at, ended_at)
            SELECT DISTINCT conversation_group_id, @@SPID, @began_at, @ended_at FROM @receive;
            RETURN;
        END;
        INSERT INTO dbo.groupReads (conversation_group_id, session_id, began_at, ended_at)
        SELECT DISTINCT conversation_group_id, @@SPID, @began_at, @ended_at FROM @receive;
        INSERT INTO dbo.messageErrors (conversation_handle, message_type_name, message_body, error_message)
        SELECT conversation_handle, message_type_name, message_body, N'The other side ended with an error.'
        FROM @receive WHERE message_type_name = N'http://schemas.microsoft.com/SQL/ServiceBroker/Error';
        DELETE FROM @receive WHERE {_IS_OURS};
        WHILE EXISTS (SELECT 1 FROM @receive)
        BEGIN
            SELECT TOP (1) @handle = conversation_handle FROM @receive;
            END CONVERSATION @handle;
            DELETE FROM @receive WHERE conversation_handle = @handle;
        END;
        COMMIT TRANSACTION;
    END;
END;
"""


# By failure, the batch that makes the procedure fail.
FAILING = {
    Failure.BEFORE: f"""\
CREATE OR ALTER PROCEDURE {PROCEDURE}
AS
BEGIN
    THROW 50001, N'This procedure fails before it receives.', 1;
END;
""",
    Failure.AFTER: f"""\
CREATE OR ALTER PROCEDURE {PROCEDURE}
AS
BEGIN
{_VARIABLES}
    BEGIN TRANSACTION;
    WAITFOR (RECEIVE TOP (1) {_COLUMNS}), TIMEOUT 3000;
    IF @@ROWCOUNT = 0
    BEGIN
        COMMIT TRANSACTION;
        RETURN;
    END;
    ROLLBACK TRANSACTION;
    THROW 50002, N'This procedure fails after it has received.', 1;
END;
""",
    Failure.MISSING: f"DROP PROCEDURE IF EXISTS {PROCEDURE};\n",
}


def activation(procedure: str, readers: int) -> str:
    """Return the batch that activates a procedure on the queue.

    It turns activation off first, because a queue monitor that waits for the RECEIVE of a procedure that failed must be
    replaced by a new one.
    """
    return f"""\
ALTER QUEUE {QUEUE} WITH STATUS = ON, ACTIVATION (STATUS = OFF);
ALTER QUEUE {QUEUE} WITH STATUS = ON, ACTIVATION (
    STATUS = ON, PROCEDURE_NAME = {procedure}, MAX_QUEUE_READERS = {readers}, EXECUTE AS OWNER);
"""


IS_ENABLED = f"""\
SELECT CAST(is_receive_enabled AS int) FROM sys.service_queues WHERE object_id = OBJECT_ID(N'{QUEUE}');
"""

# The operator's work on a queue that five rollbacks have disabled: enable the queue without activation, move the poison
# to the error table, process what was read with it, and turn activation on again.
REMOVE_POISON = f"""\
{_VARIABLES}
    ALTER QUEUE {QUEUE} WITH STATUS = ON, ACTIVATION (STATUS = OFF);
    WHILE EXISTS (SELECT 1 FROM {QUEUE} WHERE {_IS_POISON})
    BEGIN
        SELECT TOP (1) @handle = conversation_handle FROM {QUEUE} WHERE {_IS_POISON};
        BEGIN TRANSACTION;
        RECEIVE TOP (10000) {_COLUMNS} WHERE conversation_handle = @handle;
        {_STORE} AND NOT {_IS_POISON}
        {_IN_ORDER}
        INSERT INTO dbo.messageErrors (conversation_handle, message_type_name, message_body, error_number)
        SELECT conversation_handle, message_type_name, message_body, 0 FROM @receive WHERE {_IS_POISON};
        DELETE FROM @receive;
        COMMIT TRANSACTION;
        -- A reader that was stopped in its transaction may still have the group.
        WAITFOR DELAY '00:00:00.100';
    END;
    ALTER QUEUE {QUEUE} WITH ACTIVATION (STATUS = ON);
"""
