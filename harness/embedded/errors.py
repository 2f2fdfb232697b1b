"""Errors that reach the client as SQL Server's, with its numbers, severities and texts.

`CATALOGUE` holds each text once; each `%s` stands for an argument, in order. Source of numbers and texts: SQL Server
2022 "Database Engine events and errors" (Microsoft documentation). Where the manual names an error without its text,
the text is ours.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.embedded import module_errors, table_errors, value_errors

# Our own numbers, outside SQL Server's range
UNSUPPORTED = 50001  # this server does not support the syntax
DEFECT = 50002  # a bug of this server
OVER_BUDGET = 50003  # a statement that would let others wait for too long

_SYNTAX_ERRORS: dict[int, str] = {  # severity 15
    **module_errors.SYNTAX_ERRORS,
    **table_errors.SYNTAX_ERRORS,
    **value_errors.SYNTAX_ERRORS,
    102: "Incorrect syntax near '%s'.",
    103: "The %s that starts with '%s' is too long. Maximum length is %s.",
    105: "Unclosed quotation mark after the character string '%s'.",
    107: "The column prefix '%s' does not match with a table name or alias name used in the query.",
    109: (
        "There are more columns in the INSERT statement than values specified in the VALUES clause. The number of "
        "values in the VALUES clause must match the number of columns specified in the INSERT statement."
    ),
    110: (
        "There are fewer columns in the INSERT statement than values specified in the VALUES clause. The number of "
        "values in the VALUES clause must match the number of columns specified in the INSERT statement."
    ),
    113: "Missing end comment mark '*/'.",
    120: (
        "The select list for the INSERT statement contains fewer items than the insert list. The number of SELECT "
        "values must match the number of INSERT columns."
    ),
    121: (
        "The select list for the INSERT statement contains more items than the insert list. The number of SELECT "
        "values must match the number of INSERT columns."
    ),
    134: (
        "The variable name '%s' has already been declared. Variable names must be unique within a query batch or "
        "stored procedure."
    ),
    135: "Cannot use a BREAK statement outside the scope of a WHILE statement.",
    136: "Cannot use a CONTINUE statement outside the scope of a WHILE statement.",
    137: 'Must declare the scalar variable "%s".',
    141: "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
    155: "'%s' is not a recognized %s option.",
    166: "'%s' does not allow specifying the database name as a prefix to the object name.",
    174: "The %s function requires %s argument(s).",
    179: "Cannot use the OUTPUT option when passing a constant to a stored procedure.",
    191: "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.",
    195: "'%s' is not a recognized built-in function name.",
    1080: "The integer value %s is out of range.",
    1087: 'Must declare the table variable "%s".',
    4145: "An expression of non-boolean type specified in a context where a condition is expected, near '%s'.",
    10704: (
        "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement inside a "
        "CATCH block, or add error parameters to the THROW statement."
    ),
    10738: (
        "The number of row value expressions in the INSERT statement exceeds the maximum allowed number of %s row "
        "values."
    ),
    10753: "The function '%s' must have an OVER clause.",
}

_TEXTS: dict[int, str] = {
    **module_errors.TEXTS,
    **table_errors.TEXTS,
    **value_errors.TEXTS,
    116: "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
    205: (
        "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions in "
        "their target lists."
    ),
    206: "Operand type clash: %s is incompatible with %s",
    207: "Invalid column name '%s'.",
    208: "Invalid object name '%s'.",
    209: "Ambiguous column name '%s'.",
    213: "Column name or number of supplied values does not match table definition.",
    214: "Procedure expects parameter '@%s' of type '%s'.",
    226: "%s statement not allowed within multi-statement transaction.",
    229: "The %s permission was denied on the object '%s', database '%s', schema '%s'.",
    259: "Ad hoc updates to system catalogs are not allowed.",
    262: "%s permission denied in database '%s'.",
    263: "Must specify table to select from.",
    264: "The column name '%s' is specified more than once in the SET clause or column list of an INSERT.",
    297: "The user does not have permission to perform this action.",
    300: "%s permission was denied on object '%s', database '%s'.",
    313: "An insufficient number of arguments were supplied for the procedure or function %s.",
    544: "Cannot insert explicit value for identity column in table '%s' when IDENTITY_INSERT is set to OFF.",
    574: "%s statement cannot be used inside a user transaction.",
    628: "Cannot issue SAVE TRANSACTION when there is no active transaction.",
    701: "There is insufficient system memory in resource pool '%s' to run this query.",
    911: "Database '%s' does not exist. Make sure that the name is entered correctly.",
    916: 'The server principal "%s" is not able to access the database "%s" under the current security context.',
    924: "Database '%s' is already open and can only have one user at a time.",
    1013: (
        "The objects named '%s' in the FROM clause have the same exposed names. Use correlation names to distinguish "
        "them."
    ),
    1088: 'Cannot find the object "%s" because it does not exist or you do not have permissions.',
    1105: (
        "Could not allocate space for object '%s'%s in database '%s' because the '%s' filegroup is full. Create disk "
        "space by deleting unneeded files, dropping objects in the filegroup, adding additional files to the "
        "filegroup, or setting autogrowth on for existing files in the filegroup."
    ),
    1205: (
        "Transaction (Process ID %s) was deadlocked on lock resources with another process and has been chosen as the "
        "deadlock victim. Rerun the transaction."
    ),
    1222: "Lock request time out period exceeded.",
    1801: "Database '%s' already exists. Choose a different database name.",
    1842: (
        "The file size, max size cannot be greater than 2147483647 in units of a page size. The file growth cannot be "
        "greater than 2147483647 in units of both page size and percentage."
    ),
    1828: 'The logical file name "%s" is already in use. Choose a different name.',
    1911: "Column name '%s' does not exist in the target table or view.",
    2560: "Parameter %s is incorrect for this DBCC statement.",
    2571: "User '%s' does not have permission to run DBCC %s.",
    2583: "An incorrect number of parameters was given to the DBCC statement.",
    2714: "There is already an object named '%s' in the database.",
    2732: "Error number %s is invalid. The number must be from %s through %s and it cannot be 50000.",
    2754: (
        "Error severity levels greater than 18 can only be specified by members of the sysadmin role, using the WITH "
        "LOG option."
    ),
    2760: 'The specified schema name "%s" either does not exist or you do not have permission to use it.',
    2778: "Only System Administrator can specify %s option for %s command.",
    2786: "The data type of substitution parameter %s does not match the expected type of the format specification.",
    2787: "Invalid format specification: '%s'.",
    3701: "Cannot drop the %s '%s', because it does not exist or you do not have permission.",
    3702: 'Cannot drop database "%s" because it is currently in use.',
    3716: "The %s '%s' cannot be dropped because it is bound to one or more %s.",
    3902: "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.",
    3903: "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.",
    3906: 'Failed to update database "%s" because the database is read-only.',
    3930: (
        "The current transaction cannot be committed and cannot support operations that write to the log file. Roll "
        "back the transaction."
    ),
    3931: (
        "The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll back the entire "
        "transaction."
    ),
    3998: "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
    4002: "The incoming tabular data stream (TDS) protocol stream is incorrect. The stream ended unexpectedly.",
    4060: 'Cannot open database "%s" requested by the login. The login failed.',
    4064: "Cannot open user default database. Login failed.",
    4104: 'The multi-part identifier "%s" could not be bound.',
    4613: "Grantor does not have GRANT permission.",
    4621: "Permissions at the server scope can only be granted when the current database is master.",
    5011: (
        "User does not have permission to alter database '%s', the database does not exist, or the database is not in "
        "a state that allows access checks."
    ),
    5058: "Option '%s' cannot be set in database '%s'.",
    5038: 'MODIFY FILE failed for file "%s". At least one property per file must be specified.',
    5039: "MODIFY FILE failed. Specified size is less than or equal to current size.",
    5041: "MODIFY FILE failed. File '%s' does not exist.",
    5061: "ALTER DATABASE failed because a lock could not be placed on database '%s'. Try again later.",
    5069: "ALTER DATABASE statement failed.",
    5070: "Database state cannot be changed while other users are using the database '%s'",
    5812: "You do not have permission to run the RECONFIGURE statement.",
    6401: "Cannot roll back %s. No transaction or savepoint of that name was found.",
    7202: "Could not find server '%s' in sys.servers.",
    7862: "An endpoint of the requested type already exists. Only one endpoint of this type is supported.",
    8023: (
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. The supplied "
        "value is not a valid instance of data type %s."
    ),
    8155: "No column name was specified for column %s of '%s'.",
    8156: "The column '%s' was specified multiple times for '%s'.",
    8158: "'%s' has more columns than were specified in the column list.",
    8159: "'%s' has fewer columns than were specified in the column list.",
    8403: "The message type '%s' is specified more than once. Remove the duplicate message type.",
    8404: "The service contract '%s' is specified more than once. Remove the duplicate service contract.",
    8406: "The dialog lifetime can not be NULL. Specify a valid dialog lifetime value from %s to %s.",
    8408: "Target service '%s' does not support contract '%s'.",
    8410: "The conversation timer cannot be set beyond the conversation's lifetime.",
    8411: (
        "The dialog lifetime value of %s is outside the allowable range of 1 to 2147483647. Specify a valid dialog "
        "lifetime value."
    ),
    8415: (
        "The activated task was aborted because the invoked stored procedure '%s' did not issue COMMIT or ROLLBACK on "
        "one or more transactions that it begun."
    ),
    8417: "The service contract name or service name of the statement is NULL.",
    8418: "The conversation handle is missing. Specify a conversation handle.",
    8419: (
        "Both the error code and the description must be provided for END CONVERSATION WITH ERROR. Neither value can "
        "be NULL."
    ),
    8420: "The conversation group is missing. Specify a conversation group.",
    8421: "The service name is missing. Specify a service name.",
    8423: 'The service "%s" is not found.',
    8424: "The error code and error description are missing. Specify both the error code and description of the error.",
    8425: "The service contract '%s' is not found.",
    8426: 'The conversation handle "%s" is not found.',
    8427: "The conversation endpoint is not in a valid state for END CONVERSATION. The current endpoint state is '%s'.",
    8428: 'The message type "%s" is not found.',
    8429: "The conversation endpoint is not in a valid state for SEND. The current endpoint state is '%s'.",
    8430: "The message body failed the configured validation.",
    8431: "The message type '%s' is not part of the service contract.",
    8432: (
        "The message cannot be sent because the message type '%s' is marked SENT BY TARGET in the contract, however "
        "this service is an Initiator."
    ),
    8433: "The message body may not be NULL. A zero-length UNICODE or binary string is allowed.",
    8434: (
        "The message cannot be sent because the message type '%s' is marked SENT BY INTITIATOR in the contract, "
        "however this service is a Target."
    ),
    8435: 'The conversation handle "%s" at position %s is not found.',
    8436: 'The conversation group "%s" is not found.',
    8437: (
        "The message received was sent by a Target service, but the message type '%s' is marked SENT BY INITIATOR in "
        "the contract."
    ),
    8438: (
        "The conversation endpoint is not in a valid state for MOVE CONVERSATION. The current endpoint state is '%s'."
    ),
    8439: "The destination conversation group '%s' is invalid.",
    8441: "The conversation handle at position %s is missing. Specify a conversation handle.",
    8447: "A RECEIVE statement that assigns a value to a variable must not be combined with data retrieval operations.",
    8450: "Assignments in the RECEIVE projection are not allowed in conjunction with the INTO clause.",
    8451: "The conversation handle '%s' at position %s appears more than once.",
    8457: (
        "The message received was sent by the initiator of the conversation, but the message type '%s' is marked SENT "
        "BY TARGET in the contract."
    ),
    8458: (
        "The conversation endpoint is not in a valid state for BEGIN CONVERSATION TIMER. The current endpoint state is "
        "'%s'."
    ),
    8459: "The message size, including header information, exceeds the maximum allowed of %s.",
    8462: (
        "The remote conversation endpoint is either in a state where no more messages can be exchanged, or it has been "
        "dropped."
    ),
    8470: "Remote service has been dropped.",
    8487: "The remote service contract has been dropped.",
    8489: "The dialog has exceeded the specified LIFETIME.",
    8490: "Cannot find the remote service '%s' because it does not exist.",
    8492: "The service contract '%s' must have at least one message SENT BY INITIATOR or ANY.",
    8493: "The alter of service '%s' must change the queue or at least one contract.",
    8494: "You do not have permission to access the service '%s'.",
    8498: "The remote service has sent a message of type '%s' that is not part of the local contract.",
    8632: (
        "Internal error: An expression services limit has been reached. Please look for potentially complex "
        "expressions in your query, and try to simplify them."
    ),
    9002: "The transaction log for database '%s' is full due to 'NOTHING'.",
    9610: "The service '%s' in the FROM SERVICE clause must match the service '%s' referenced by %s = '%s'.",
    9614: (
        "The queue '%s' cannot be activated because the activation stored procedure is either not specified or is "
        "invalid."
    ),
    9615: (
        "A message of type '%s' failed XML validation on the target service. %s This occurred in the message with "
        "Conversation ID '%s', Initiator: %s, and Message sequence number: %s."
    ),
    9616: (
        "A message of type '%s' was received and failed XML validation. %s This occurred in the message with "
        "Conversation ID '%s', Initiator: %s, and Message sequence number: %s."
    ),
    9617: 'The service queue "%s" is currently disabled.',
    9618: (
        "The message cannot be sent because the service queue '%s' associated with the dialog is currently disabled "
        "and retention is on."
    ),
    9619: "Failed to create remote service binding '%s'. A remote service binding for service '%s' already exists.",
    9653: "The signature of activation stored procedure is invalid. Parameters are not allowed.",
    9659: "The %s of route '%s' cannot be empty.",
    9660: "The %s of route '%s' must be less than %s characters long.",
    9661: 'The SERVICE_NAME and BROKER_INSTANCE of route "%s" must be specified when using mirroring.',
    9662: 'Cannot specify BROKER_INSTANCE without SERVICE_NAME in route "%s".',
    9663: "The system object cannot be modified.",
    9692: "The Service Broker endpoint cannot listen on port %s because it is in use by another process.",
    9693: "The Service Broker endpoint cannot listen for connections due to the following error: '%s'.",
    9717: (
        "Cannot enable stored procedure activation on queue '%s'. Event notification for queue_activation is already "
        "configured on this queue."
    ),
    9718: (
        'Cannot create event notification for queue_activation on queue "%s". Stored procedure activation is already '
        "configured on this queue."
    ),
    9719: "The database for this conversation endpoint is attached or restored.",
    9724: "The activated proc '%s' running on queue '%s' output the following:  '%s'",
    9727: (
        "Dialog security is not available for this conversation because there is no remote service binding for the "
        "target service. Create a remote service binding, or specify ENCRYPTION = OFF in the BEGIN DIALOG statement."
    ),
    9731: (
        "Dialog security is unavailable for this conversation because there is no security certificate bound to the "
        "database principal (Id: %s). Either create a certificate for the principal, or specify ENCRYPTION = OFF when "
        "beginning the conversation."
    ),
    9742: "The activation stored procedure is invalid. Temporary procedures may not be configured for activation.",
    9743: 'The %s of route "%s" must be an address when using mirroring.',
    9744: 'The %s of route "%s" is not a valid address.',
    9745: "The ADDRESS of route '%s' cannot be 'TRANSPORT' when SERVICE_NAME is specified.",
    9746: "The LIFETIME of route '%s' must be in the range 1 to 2147483647.",
    9747: "The ADDRESS and MIRROR_ADDRESS of route '%s' cannot be the same.",
    9748: "The Service Broker protocol transport is not available.",
    9750: (
        "No route matches the destination service name for this conversation. Create a route to the destination "
        "service name for messages in this conversation to be delivered."
    ),
    9754: "Connection attempt failed with error: '%s'.",
    9770: "Locating routes and security information via the Broker Configuration Service.",
    9772: (
        'The Service Broker in database "%s" cannot be enabled because there is already an enabled Service Broker with '
        "the same ID."
    ),
    9775: 'Cannot create a new Service Broker in read-only database "%s".',
    9785: "Invalid address specified: '%s'.",
    9791: "The broker is disabled in the sender's database.",
    9793: (
        "The target service name could not be found. Ensure that the service name is specified correctly and/or the "
        "routing information has been supplied."
    ),
    9795: "Could not find the target broker in the local SQL Server instance.",
    15007: "'%s' is not a valid login or you do not have permission.",
    15023: "User, group, or role '%s' already exists in the current database.",
    15025: "The server principal '%s' already exists.",
    15123: "The configuration option '%s' does not exist, or it may be an advanced option.",
    15048: "Valid values of the database compatibility level are %s.",
    15129: "'%s' is not a valid value for configuration option '%s'.",
    15151: "Cannot %s the %s '%s', because it does not exist or you do not have permission.",
    15217: "Property cannot be updated or deleted. Property '%s' does not exist for '%s'.",
    15232: "A certificate with name '%s' already exists or this certificate already has been added to the database.",
    15233: "Property cannot be added. Property '%s' already exists for '%s'.",
    15250: "The database name component of the object qualifier must be the name of the current database.",
    15247: "User does not have permission to perform this action.",
    15297: "The certificate, asymmetric key, or private key data is invalid.",
    15313: "The key is not encrypted using the specified decryptor.",
    15315: "The key '%s' is not open. Please open the key before using it.",
    15466: "An error occurred during decryption.",
    15517: (
        'Cannot execute as the database principal because the principal "%s" does not exist, this type of principal '
        "cannot be impersonated, or you do not have permission."
    ),
    15578: "There is already a master key in the database. Please drop it before performing this statement.",
    15580: "Cannot drop master key because %s '%s' is encrypted by it.",
    15581: (
        "Please create a master key in the database or open the master key in the session before performing this "
        "operation."
    ),
    16905: "The cursor is already open.",
    16915: "A cursor with the name '%s' already exists.",
    16916: "A cursor with the name '%s' does not exist.",
    16917: "Cursor is not open.",
    16950: "The variable '%s' does not currently have a cursor allocated to it.",
    16924: "Cursorfetch: The number of variables declared in the INTO list must match that of selected columns.",
    17300: (
        "SQL Server was unable to run a new system task, either because there is insufficient memory or the number of "
        "configured sessions exceeds the maximum allowed in the server. Verify that the server has adequate memory."
    ),
    17809: (
        "Could not connect because the maximum number of '%s' user connections has already been reached. The system "
        "administrator can use sp_configure to increase the maximum value. The connection has been closed."
    ),
    17810: (
        "Could not connect because the maximum number of '%s' dedicated administrator connections already exists. "
        "Before a new connection can be made, the existing dedicated administrator connection must be dropped, either "
        "by logging off or ending the process."
    ),
    18054: (
        "Error %s, severity %s, state %s was raised, but no message with that error number was found in sys.messages."
    ),
    18401: (
        "Login failed for user '%s'. Reason: Server is in script upgrade mode. Only administrator can connect at this "
        "time."
    ),
    18456: "Login failed for user '%s'.",
    18470: "Login failed for user '%s'. Reason: The account is disabled.",
    28005: "An exception occurred while enqueueing a message in the target queue. Error: %s, State: %s. %s",
    28006: (
        "User does not have permission to %s the conversation '%s' in state '%s'. Only members of the sysadmin fixed "
        "server role and the db_owner fixed database role have this permission."
    ),
    28013: "The service broker is administratively disabled.",
    28021: "One or more messages could not be delivered to the local service targeted by this dialog.",
    28054: (
        "Service Broker needs to access the master key in the database '%s'. Error code:%s. The master key has to "
        "exist and the service master key encryption is required."
    ),
    35100: (
        "Error number %s in the THROW statement is outside the valid range. Specify an error number in the valid range "
        "of 50000 to 2147483647."
    ),
    UNSUPPORTED: "The embedded Service Broker does not support %s.",
    OVER_BUDGET: (
        "The statement has exceeded its budget of %s. Let it do less at once, or raise the budget: harness serve "
        "--statement-budget SECONDS."
    ),
    DEFECT: (
        "The statement failed because of a defect of the embedded Service Broker (%s). Please report it with what the "
        "server's log says about it."
    ),
}

# The others in `_TEXTS` have severity 16. sys.messages has 10 for 15048, 15313 and 15315, but clients get 16.
_SEVERITIES: dict[int, tuple[int, ...]] = {
    10: (9724, 9748, 9750, 9754, 9770, 9785, 9791, 9793, 9795),
    11: (3701, 4060, 4064, 7202),
    13: (1205,),
    14: (229, 262, 300, 916, 924, 2571, 2627, 5011, 5812, 18401, 18456, 18470, 28006),
    17: (701, 1105, 8632, 9002),
    20: (17809, 17810),
}


class ErrorText(NamedTuple):
    severity: int
    text: str


CATALOGUE = {
    **{number: ErrorText(15, text) for number, text in _SYNTAX_ERRORS.items()},
    **{number: ErrorText(16, text) for number, text in _TEXTS.items()},
    **{number: ErrorText(severity, _TEXTS[number]) for severity, numbers in _SEVERITIES.items() for number in numbers},
}


class SqlServerError(Exception):
    """An error of SQL Server; `line` and `procedure` are set where it is raised to the client."""

    def __init__(self, number: int, *arguments: object, state: int = 1, line: int = 0, procedure: str = "") -> None:
        severity, text = CATALOGUE[number]
        super().__init__(text % arguments)
        self.number = number
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure

    frame: object | None = None  # of T-SQL, in which the error occurred
    ends_batch = False  # decided where it occurred, with the options there

    @property
    def text(self) -> str:
        return str(self.args[0])


def let_go(error: BaseException | None) -> None:
    """Let go of a handled error's causes, and of the frames in which it and they were raised. Some refer to the error,
    so only a collection of garbage would free what they hold."""
    while error is not None:  # an error may be its own cause
        following = error.__cause__ or error.__context__
        error.__traceback__ = error.__cause__ = error.__context__ = None
        error = following


class UnsupportedSyntax(SqlServerError):
    """T-SQL that is not supported; the text names it and its line."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(UNSUPPORTED, f"{what} (line {line})" if line else what, line=line)


class RaisedError(SqlServerError):
    """An error whose number, severity and text come from T-SQL code."""

    def __init__(
        self, number: int, severity: int, text: str, state: int, *, ends_batch: bool, line: int = 0, procedure: str = ""
    ) -> None:
        Exception.__init__(self, text)
        self.number = number
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure
        self.ends_batch = ends_batch  # THROW does, RAISERROR does not

    @staticmethod
    def again(error: SqlServerError) -> RaisedError:
        """`THROW` without arguments: the caught error, with its own line."""
        return RaisedError(
            error.number,
            error.severity,
            error.text,
            error.state,
            ends_batch=True,
            line=error.line,
            procedure=error.procedure,
        )
