"""Errors that reach the client as SQL Server's, with its numbers, severities and texts.

`CATALOGUE` holds each text once; `%s` stand for the arguments in order. Source of numbers and texts: SQL Server 2022
"Database Engine events and errors" (Microsoft documentation); where the manual names an error without quoting its
text, the text here is ours.
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorText(NamedTuple):
    severity: int
    text: str


UNSUPPORTED = 50001  # our own number, outside SQL Server's range: this server does not know the syntax

CATALOGUE: dict[int, ErrorText] = {
    102: ErrorText(15, "Incorrect syntax near '%s'."),
    105: ErrorText(15, "Unclosed quotation mark after the character string '%s'."),
    107: ErrorText(15, "The column prefix '%s' does not match with a table name or alias name used in the query."),
    109: ErrorText(
        15,
        "There are more columns in the INSERT statement than values specified in the VALUES clause. The "
        "number of values in the VALUES clause must match the number of columns specified in the INSERT "
        "statement.",
    ),
    110: ErrorText(
        15,
        "There are fewer columns in the INSERT statement than values specified in the VALUES clause. "
        "The number of values in the VALUES clause must match the number of columns specified in the "
        "INSERT statement.",
    ),
    116: ErrorText(
        16,
        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
    ),
    120: ErrorText(
        15,
        "The select list for the INSERT statement contains fewer items than the insert list. The number "
        "of SELECT values must match the number of INSERT columns.",
    ),
    121: ErrorText(
        15,
        "The select list for the INSERT statement contains more items than the insert list. The number "
        "of SELECT values must match the number of INSERT columns.",
    ),
    134: ErrorText(
        15,
        "The variable name '%s' has already been declared. Variable names must be unique within a query "
        "batch or stored procedure.",
    ),
    135: ErrorText(15, "Cannot use a BREAK statement outside the scope of a WHILE statement."),
    136: ErrorText(15, "Cannot use a CONTINUE statement outside the scope of a WHILE statement."),
    137: ErrorText(15, 'Must declare the scalar variable "%s".'),
    141: ErrorText(
        15,
        "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
    ),
    154: ErrorText(15, "%s is not allowed in a procedure, function or trigger."),
    155: ErrorText(15, "'%s' is not a recognized %s option."),
    166: ErrorText(15, "'%s' does not allow specifying the database name as a prefix to the object name."),
    174: ErrorText(15, "The %s function requires %s argument(s)."),
    178: ErrorText(15, "A RETURN statement with a return value cannot be used in this context."),
    179: ErrorText(15, "Cannot use the OUTPUT option when passing a constant to a stored procedure."),
    191: ErrorText(
        15,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.",
    ),
    195: ErrorText(15, "'%s' is not a recognized built-in function name."),
    201: ErrorText(16, "Procedure or function '%s' expects parameter '%s', which was not supplied."),
    205: ErrorText(
        16,
        "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of "
        "expressions in their target lists.",
    ),
    206: ErrorText(16, "Operand type clash: %s is incompatible with %s"),
    207: ErrorText(16, "Invalid column name '%s'."),
    208: ErrorText(16, "Invalid object name '%s'."),
    209: ErrorText(16, "Ambiguous column name '%s'."),
    213: ErrorText(16, "Column name or number of supplied values does not match table definition."),
    214: ErrorText(16, "Procedure expects parameter '@%s' of type '%s'."),
    217: ErrorText(16, "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit %s)."),
    226: ErrorText(16, "%s statement not allowed within multi-statement transaction."),
    241: ErrorText(16, "Conversion failed when converting date and/or time from character string."),
    242: ErrorText(
        16,
        "The conversion of a varchar data type to a datetime data type resulted in an out-of-range value.",
    ),
    245: ErrorText(16, "Conversion failed when converting the varchar value '%s' to data type %s."),
    259: ErrorText(16, "Ad hoc updates to system catalogs are not allowed."),
    263: ErrorText(16, "Must specify table to select from."),
    264: ErrorText(
        16,
        "The column name '%s' is specified more than once in the SET clause or column list of an INSERT.",
    ),
    266: ErrorText(
        16,
        "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. "
        "Previous count = %s, current count = %s.",
    ),
    281: ErrorText(16, "%s is not a valid style number when converting from %s to a character string."),
    402: ErrorText(16, "The data types %s and %s are incompatible in the %s operator."),
    515: ErrorText(
        16,
        "Cannot insert the value NULL into column '%s', table '%s'; column does not allow nulls. %s fails.",
    ),
    517: ErrorText(16, "Adding a value to a '%s' column caused an overflow."),
    529: ErrorText(16, "Explicit conversion from data type %s to %s is not allowed."),
    535: ErrorText(
        16,
        "The %s function resulted in an overflow. The number of dateparts separating two date/time "
        "instances is too large. Try to use datediff with a less precise datepart.",
    ),
    537: ErrorText(16, "Invalid length parameter passed to the %s function."),
    544: ErrorText(
        16,
        "Cannot insert explicit value for identity column in table '%s' when IDENTITY_INSERT is set to OFF.",
    ),
    628: ErrorText(16, "Cannot issue SAVE TRANSACTION when there is no active transaction."),
    911: ErrorText(16, "Database '%s' does not exist. Make sure that the name is entered correctly."),
    1013: ErrorText(
        16,
        "The objects named '%s' in the FROM clause have the same exposed names. Use correlation names "
        "to distinguish them.",
    ),
    1087: ErrorText(15, 'Must declare the table variable "%s".'),
    1205: ErrorText(
        13,
        "Transaction (Process ID %s) was deadlocked on lock resources with another process and has been "
        "chosen as the deadlock victim. Rerun the transaction.",
    ),
    1222: ErrorText(16, "Lock request time out period exceeded."),
    1801: ErrorText(16, "Database '%s' already exists. Choose a different database name."),
    2627: ErrorText(14, "Violation of %s constraint '%s'. Cannot insert duplicate key in object '%s'."),
    2705: ErrorText(
        16,
        "Column names in each table must be unique. Column name '%s' in table '%s' is specified more than once.",
    ),
    2714: ErrorText(16, "There is already an object named '%s' in the database."),
    2744: ErrorText(
        16,
        "Multiple identity columns specified for table '%s'. Only one identity column per table is allowed.",
    ),
    2786: ErrorText(
        16,
        "The data type of substitution parameter %s does not match the expected type of the format specification.",
    ),
    2787: ErrorText(16, "Invalid format specification: '%s'."),
    2812: ErrorText(16, "Could not find stored procedure '%s'."),
    3701: ErrorText(11, "Cannot drop the %s '%s', because it does not exist or you do not have permission."),
    3702: ErrorText(16, 'Cannot drop database "%s" because it is currently in use.'),
    3716: ErrorText(16, "The %s '%s' cannot be dropped because it is bound to one or more %s."),
    3902: ErrorText(16, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    3903: ErrorText(16, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    3930: ErrorText(
        16,
        "The current transaction cannot be committed and cannot support operations that write to the "
        "log file. Roll back the transaction.",
    ),
    3931: ErrorText(
        16,
        "The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll "
        "back the entire transaction.",
    ),
    3998: ErrorText(
        16,
        "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
    ),
    4060: ErrorText(11, 'Cannot open database "%s" requested by the login. The login failed.'),
    4104: ErrorText(16, 'The multi-part identifier "%s" could not be bound.'),
    4145: ErrorText(
        15,
        "An expression of non-boolean type specified in a context where a condition is expected, near '%s'.",
    ),
    4901: ErrorText(
        16,
        "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT "
        "definition specified; column '%s' cannot be added to non-empty table '%s'.",
    ),
    6401: ErrorText(16, "Cannot roll back %s. No transaction or savepoint of that name was found."),
    7202: ErrorText(11, "Could not find server '%s' in sys.servers."),
    7862: ErrorText(
        16,
        "An endpoint of the requested type already exists. Only one endpoint of this type is supported.",
    ),
    8023: ErrorText(
        16,
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is "
        "incorrect. The supplied value is not a valid instance of data type %s.",
    ),
    8114: ErrorText(16, "Error converting data type %s to %s."),
    8115: ErrorText(16, "Arithmetic overflow error converting expression to data type %s."),
    8116: ErrorText(16, "Argument data type %s is invalid for an argument of %s function."),
    8134: ErrorText(16, "Divide by zero error encountered."),
    8144: ErrorText(16, "Procedure or function %s has too many arguments specified."),
    8145: ErrorText(16, "%s is not a parameter for procedure %s."),
    8152: ErrorText(16, "String or binary data would be truncated."),
    8155: ErrorText(16, "No column name was specified for column %s of '%s'."),
    8158: ErrorText(16, "'%s' has more columns than were specified in the column list."),
    8159: ErrorText(16, "'%s' has fewer columns than were specified in the column list."),
    8162: ErrorText(
        16,
        'The formal parameter "%s" was not declared as an OUTPUT parameter, but the actual parameter '
        "passed in requested output.",
    ),
    8169: ErrorText(16, "Conversion failed when converting from a character string to uniqueidentifier."),
    8178: ErrorText(16, "The parameterized query expects the parameter '%s', which was not supplied."),
    8179: ErrorText(16, "Could not find prepared statement with handle %s."),
    8403: ErrorText(16, "The message type '%s' is specified more than once. Remove the duplicate message type."),
    8404: ErrorText(
        16,
        "The service contract '%s' is specified more than once. Remove the duplicate service contract.",
    ),
    8406: ErrorText(16, "The dialog lifetime can not be NULL. Specify a valid dialog lifetime value from %s to %s."),
    8408: ErrorText(16, "Target service '%s' does not support contract '%s'."),
    8410: ErrorText(16, "The conversation timer cannot be set beyond the conversation's lifetime."),
    8411: ErrorText(
        16,
        "The dialog lifetime value of %s is outside the allowable range of 1 to 2147483647. Specify a "
        "valid dialog lifetime value.",
    ),
    8412: ErrorText(16, "The syntax of the service name '%s' is invalid."),
    8415: ErrorText(
        16,
        "The activated task was aborted because the invoked stored procedure '%s' did not issue COMMIT "
        "or ROLLBACK on one or more transactions that it begun.",
    ),
    8417: ErrorText(16, "The service contract name or service name of the statement is NULL."),
    8418: ErrorText(16, "The conversation handle is missing. Specify a conversation handle."),
    8419: ErrorText(
        16,
        "Both the error code and the description must be provided for END CONVERSATION WITH ERROR. "
        "Neither value can be NULL.",
    ),
    8420: ErrorText(16, "The conversation group is missing. Specify a conversation group."),
    8421: ErrorText(16, "The service name is missing. Specify a service name."),
    8423: ErrorText(16, 'The service "%s" is not found.'),
    8424: ErrorText(
        16,
        "The error code and error description are missing. Specify both the error code and description of the error.",
    ),
    8425: ErrorText(16, "The service contract '%s' is not found."),
    8426: ErrorText(16, 'The conversation handle "%s" is not found.'),
    8427: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for END CONVERSATION. The current endpoint state is '%s'.",
    ),
    8428: ErrorText(16, 'The message type "%s" is not found.'),
    8429: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for SEND. The current endpoint state is '%s'.",
    ),
    8430: ErrorText(16, "The message body failed the configured validation."),
    8431: ErrorText(16, "The message type '%s' is not part of the service contract."),
    8432: ErrorText(
        16,
        "The message cannot be sent because the message type '%s' is marked SENT BY TARGET in the "
        "contract, however this service is an Initiator.",
    ),
    8433: ErrorText(16, "The message body may not be NULL. A zero-length UNICODE or binary string is allowed."),
    8434: ErrorText(
        16,
        "The message cannot be sent because the message type '%s' is marked SENT BY INTITIATOR in the "
        "contract, however this service is a Target.",
    ),
    8435: ErrorText(16, 'The conversation handle "%s" at position %s is not found.'),
    8436: ErrorText(16, 'The conversation group "%s" is not found.'),
    8437: ErrorText(
        16,
        "The message received was sent by a Target service, but the message type '%s' is marked SENT BY "
        "INITIATOR in the contract.",
    ),
    8438: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for MOVE CONVERSATION. The current endpoint state is '%s'.",
    ),
    8439: ErrorText(16, "The destination conversation group '%s' is invalid."),
    8441: ErrorText(16, "The conversation handle at position %s is missing. Specify a conversation handle."),
    8442: ErrorText(
        16,
        "There is no Service Broker active in the database. Change to a database context that contains "
        "a Service Broker.",
    ),
    8447: ErrorText(
        16,
        "A RECEIVE statement that assigns a value to a variable must not be combined with data retrieval operations.",
    ),
    8450: ErrorText(16, "Assignments in the RECEIVE projection are not allowed in conjunction with the INTO clause."),
    8451: ErrorText(16, "The conversation handle '%s' at position %s appears more than once."),
    8457: ErrorText(
        16,
        "The message received was sent by the initiator of the conversation, but the message type '%s' "
        "is marked SENT BY TARGET in the contract.",
    ),
    8458: ErrorText(
        16,
        "The conversation endpoint is not in a valid state for BEGIN CONVERSATION TIMER. The current "
        "endpoint state is '%s'.",
    ),
    8459: ErrorText(16, "The message size, including header information, exceeds the maximum allowed of %s."),
    8462: ErrorText(
        16,
        "The remote conversation endpoint is either in a state where no more messages can be exchanged, "
        "or it has been dropped.",
    ),
    8469: ErrorText(16, "Remote service has been altered."),
    8470: ErrorText(16, "Remote service has been dropped."),
    8487: ErrorText(16, "The remote service contract has been dropped."),
    8489: ErrorText(16, "The dialog has exceeded the specified LIFETIME."),
    8490: ErrorText(16, "Cannot find the remote service '%s' because it does not exist."),
    8492: ErrorText(16, "The service contract '%s' must have at least one message SENT BY INITIATOR or ANY."),
    8493: ErrorText(16, "The alter of service '%s' must change the queue or at least one contract."),
    8494: ErrorText(16, "You do not have permission to access the service '%s'."),
    8498: ErrorText(16, "The remote service has sent a message of type '%s' that is not part of the local contract."),
    9002: ErrorText(17, "The transaction log for database '%s' is full due to 'LOG_BACKUP'."),
    9610: ErrorText(
        16,
        "The service '%s' in the FROM SERVICE clause must match the service '%s' referenced by %s = '%s'.",
    ),
    9614: ErrorText(
        16,
        "The queue '%s' cannot be activated because the activation stored procedure is either not "
        "specified or is invalid.",
    ),
    9617: ErrorText(16, 'The service queue "%s" is currently disabled.'),
    9618: ErrorText(
        16,
        "The message cannot be sent because the service queue '%s' associated with the dialog is "
        "currently disabled and retention is on.",
    ),
    9619: ErrorText(
        16,
        "Failed to create remote service binding '%s'. A remote service binding for service '%s' already exists.",
    ),
    9648: ErrorText(
        20,
        "The queue '%s' has been enabled for activation, but the MAX_QUEUE_READERS is zero. No "
        "procedures will be activated. Consider increasing the number of MAX_QUEUE_READERS.",
    ),
    9653: ErrorText(16, "The signature of activation stored procedure is invalid. Parameters are not allowed."),
    9659: ErrorText(16, "The %s of route '%s' cannot be empty."),
    9661: ErrorText(16, 'The SERVICE_NAME and BROKER_INSTANCE of route "%s" must be specified when using mirroring.'),
    9662: ErrorText(16, 'Cannot specify BROKER_INSTANCE without SERVICE_NAME in route "%s".'),
    9663: ErrorText(16, "The system object cannot be modified."),
    9692: ErrorText(
        16,
        "The Service Broker endpoint cannot listen on port %s because it is in use by another process.",
    ),
    9717: ErrorText(
        16,
        "Cannot enable stored procedure activation on queue '%s'. Event notification for "
        "queue_activation is already configured on this queue.",
    ),
    9718: ErrorText(
        16,
        'Cannot create event notification for queue_activation on queue "%s". Stored procedure '
        "activation is already configured on this queue.",
    ),
    9719: ErrorText(16, "The database for this conversation endpoint is attached or restored."),
    9724: ErrorText(10, "The activated proc '%s' running on queue '%s' output the following:  '%s'"),
    9727: ErrorText(
        16,
        "Dialog security is not available for this conversation because there is no remote service "
        "binding for the target service. Create a remote service binding, or specify ENCRYPTION = OFF "
        "in the BEGIN DIALOG statement.",
    ),
    9731: ErrorText(
        16,
        "Dialog security is unavailable for this conversation because there is no security certificate "
        "bound to the database principal (Id: %s). Either create a certificate for the principal, or "
        "specify ENCRYPTION = OFF when beginning the conversation.",
    ),
    9742: ErrorText(
        16,
        "The activation stored procedure is invalid. Temporary procedures may not be configured for activation.",
    ),
    9743: ErrorText(16, 'The %s of route "%s" must be an address when using mirroring.'),
    9744: ErrorText(16, 'The %s of route "%s" is not a valid address.'),
    9745: ErrorText(16, "The ADDRESS of route '%s' cannot be 'TRANSPORT' when SERVICE_NAME is specified."),
    9746: ErrorText(16, "The LIFETIME of route '%s' must be in the range 1 to 2147483647."),
    9747: ErrorText(16, "The ADDRESS and MIRROR_ADDRESS of route '%s' cannot be the same."),
    9748: ErrorText(10, "The Service Broker protocol transport is not available."),
    9750: ErrorText(
        10,
        "No route matches the destination service name for this conversation. Create a route to the "
        "destination service name for messages in this conversation to be delivered.",
    ),
    9754: ErrorText(10, "Connection attempt failed with error: '%s'."),
    9770: ErrorText(10, "Locating routes and security information via the Broker Configuration Service."),
    9772: ErrorText(
        16,
        'The Service Broker in database "%s" cannot be enabled because there is already an enabled '
        "Service Broker with the same ID.",
    ),
    9785: ErrorText(10, "Invalid address specified: '%s'."),
    9791: ErrorText(10, "The broker is disabled in the sender's database."),
    9793: ErrorText(
        10,
        "The target service name could not be found. Ensure that the service name is specified "
        "correctly and/or the routing information has been supplied.",
    ),
    9795: ErrorText(10, "Could not find the target broker in the local SQL Server instance."),
    10704: ErrorText(
        15,
        "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW "
        "statement inside a CATCH block, or add error parameters to the THROW statement.",
    ),
    10753: ErrorText(15, "The function '%s' must have an OVER clause."),
    15007: ErrorText(16, "'%s' is not a valid login or you do not have permission."),
    15023: ErrorText(16, "User, group, or role '%s' already exists in the current database."),
    15025: ErrorText(16, "The server principal '%s' already exists."),
    15151: ErrorText(16, "Cannot %s the %s '%s', because it does not exist or you do not have permission."),
    15232: ErrorText(
        16,
        "A certificate with name '%s' already exists or this certificate already has been added to the database.",
    ),
    15578: ErrorText(
        16,
        "There is already a master key in the database. Please drop it before performing this statement.",
    ),
    15581: ErrorText(
        16,
        "Please create a master key in the database or open the master key in the session before "
        "performing this operation.",
    ),
    16905: ErrorText(16, "The cursor is already open."),
    16915: ErrorText(16, "A cursor with the name '%s' already exists."),
    16916: ErrorText(16, "A cursor with the name '%s' does not exist."),
    16917: ErrorText(16, "Cursor is not open."),
    16924: ErrorText(
        16,
        "Cursorfetch: The number of variables declared in the INTO list must match that of selected columns.",
    ),
    18054: ErrorText(
        16,
        "Error %s, severity %s, state %s was raised, but no message with that error number was found in sys.messages.",
    ),
    18456: ErrorText(14, "Login failed for user '%s'."),
    28013: ErrorText(16, "The service broker is administratively disabled."),
    28021: ErrorText(16, "One or more messages could not be delivered to the local service targeted by this dialog."),
    28054: ErrorText(
        16,
        "Service Broker needs to access the master key in the database '%s'. Error code:%s. The master "
        "key has to exist and the service master key encryption is required.",
    ),
    35100: ErrorText(
        16,
        "Error number %s in the THROW statement is outside the valid range. Specify an error number in "
        "the valid range of 50000 to 2147483647.",
    ),
    UNSUPPORTED: ErrorText(16, "The embedded Service Broker does not support %s."),
}


class SqlServerError(Exception):
    """An error of SQL Server: number, severity, text; `line` and `procedure` are filled in where it surfaces."""

    def __init__(self, number: int, *arguments: object, state: int = 1, line: int = 0, procedure: str = "") -> None:
        severity, text = CATALOGUE[number]
        super().__init__(text % arguments)
        self.number = number
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure

    @property
    def text(self) -> str:
        return str(self.args[0])


class UnsupportedSyntax(SqlServerError):
    """T-SQL outside the dialect: names the statement and its line, never silence."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(UNSUPPORTED, f"{what} (line {line})" if line else what, line=line)
