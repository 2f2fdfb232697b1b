"""Errors that reach the client as SQL Server's, with its numbers, severities and texts.

`CATALOGUE` holds each text once; each `%s` stands for an argument, in order. Source of numbers and texts: SQL Server
2022 "Database Engine events and errors" (Microsoft documentation). Where the manual names an error without its text,
the text is ours.
"""

from __future__ import annotations

from harness.embedded.broker_errors import SERVICE_BROKER, ErrorText

UNSUPPORTED = 50001  # our own number, outside SQL Server's range: this server does not support the syntax

CATALOGUE: dict[int, ErrorText] = {
    **SERVICE_BROKER,
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
    229: ErrorText(14, "The %s permission was denied on the object '%s', database '%s', schema '%s'."),
    241: ErrorText(16, "Conversion failed when converting date and/or time from character string."),
    242: ErrorText(
        16,
        "The conversion of a varchar data type to a datetime data type resulted in an out-of-range value.",
    ),
    245: ErrorText(16, "Conversion failed when converting the varchar value '%s' to data type %s."),
    259: ErrorText(16, "Ad hoc updates to system catalogs are not allowed."),
    262: ErrorText(14, "%s permission denied in database '%s'."),
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
    297: ErrorText(16, "The user does not have permission to perform this action."),
    300: ErrorText(14, "%s permission was denied on object '%s', database '%s'."),
    313: ErrorText(16, "An insufficient number of arguments were supplied for the procedure or function %s."),
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
    574: ErrorText(16, "%s statement cannot be used inside a user transaction."),
    628: ErrorText(16, "Cannot issue SAVE TRANSACTION when there is no active transaction."),
    911: ErrorText(16, "Database '%s' does not exist. Make sure that the name is entered correctly."),
    916: ErrorText(
        14,
        'The server principal "%s" is not able to access the database "%s" under the current security context.',
    ),
    1013: ErrorText(
        16,
        "The objects named '%s' in the FROM clause have the same exposed names. Use correlation names "
        "to distinguish them.",
    ),
    1087: ErrorText(15, 'Must declare the table variable "%s".'),
    1088: ErrorText(16, 'Cannot find the object "%s" because it does not exist or you do not have permissions.'),
    1105: ErrorText(
        17,
        "Could not allocate space for object '%s'%s in database '%s' because the '%s' filegroup is full. "
        "Create disk space by deleting unneeded files, dropping objects in the filegroup, adding additional"
        " files to the filegroup, or setting autogrowth on for existing files in the filegroup.",
    ),
    1205: ErrorText(
        13,
        "Transaction (Process ID %s) was deadlocked on lock resources with another process and has been "
        "chosen as the deadlock victim. Rerun the transaction.",
    ),
    1222: ErrorText(16, "Lock request time out period exceeded."),
    1801: ErrorText(16, "Database '%s' already exists. Choose a different database name."),
    1828: ErrorText(16, 'The logical file name "%s" is already in use. Choose a different name.'),
    2571: ErrorText(14, "User '%s' does not have permission to run DBCC %s."),
    2583: ErrorText(16, "An incorrect number of parameters was given to the DBCC statement."),
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
    2760: ErrorText(
        16, 'The specified schema name "%s" either does not exist or you do not have permission to use it.'
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
    3906: ErrorText(16, 'Failed to update database "%s" because the database is read-only.'),
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
    4064: ErrorText(11, "Cannot open user default database. Login failed."),
    4104: ErrorText(16, 'The multi-part identifier "%s" could not be bound.'),
    4145: ErrorText(
        15,
        "An expression of non-boolean type specified in a context where a condition is expected, near '%s'.",
    ),
    4613: ErrorText(16, "Grantor does not have GRANT permission."),
    4621: ErrorText(16, "Permissions at the server scope can only be granted when the current database is master."),
    5011: ErrorText(
        14,
        "User does not have permission to alter database '%s', the database does not exist, or the database"
        " is not in a state that allows access checks.",
    ),
    5038: ErrorText(16, 'MODIFY FILE failed for file "%s". At least one property per file must be specified.'),
    5039: ErrorText(16, "MODIFY FILE failed. Specified size is less than or equal to current size."),
    5041: ErrorText(16, "MODIFY FILE failed. File '%s' does not exist."),
    5061: ErrorText(16, "ALTER DATABASE failed because a lock could not be placed on database '%s'. Try again later."),
    5069: ErrorText(16, "ALTER DATABASE statement failed."),
    5812: ErrorText(14, "You do not have permission to run the RECONFIGURE statement."),
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
    9002: ErrorText(17, "The transaction log for database '%s' is full due to 'LOG_BACKUP'."),
    10704: ErrorText(
        15,
        "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW "
        "statement inside a CATCH block, or add error parameters to the THROW statement.",
    ),
    10753: ErrorText(15, "The function '%s' must have an OVER clause."),
    15007: ErrorText(16, "'%s' is not a valid login or you do not have permission."),
    15023: ErrorText(16, "User, group, or role '%s' already exists in the current database."),
    15025: ErrorText(16, "The server principal '%s' already exists."),
    15123: ErrorText(16, "The configuration option '%s' does not exist, or it may be an advanced option."),
    15129: ErrorText(16, "'%s' is not a valid value for configuration option '%s'."),
    15151: ErrorText(16, "Cannot %s the %s '%s', because it does not exist or you do not have permission."),
    15232: ErrorText(
        16,
        "A certificate with name '%s' already exists or this certificate already has been added to the database.",
    ),
    15233: ErrorText(16, "Property cannot be added. Property '%s' already exists for '%s'."),
    15247: ErrorText(16, "User does not have permission to perform this action."),
    15297: ErrorText(16, "The certificate, asymmetric key, or private key data is invalid."),
    15466: ErrorText(16, "An error occurred during decryption."),
    15517: ErrorText(
        16,
        'Cannot execute as the database principal because the principal "%s" does not exist, this type of '
        "principal cannot be impersonated, or you do not have permission.",
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
    17810: ErrorText(
        20,
        "Could not connect because the maximum number of '%s' dedicated administrator connections already "
        "exists. Before a new connection can be made, the existing dedicated administrator connection must "
        "be dropped, either by logging off or ending the process.",
    ),
    18054: ErrorText(
        16,
        "Error %s, severity %s, state %s was raised, but no message with that error number was found in sys.messages.",
    ),
    18401: ErrorText(
        14,
        "Login failed for user '%s'. Reason: Server is in script upgrade mode. Only administrator can "
        "connect at this time.",
    ),
    18456: ErrorText(14, "Login failed for user '%s'."),
    18470: ErrorText(14, "Login failed for user '%s'. Reason: The account is disabled."),
    35100: ErrorText(
        16,
        "Error number %s in the THROW statement is outside the valid range. Specify an error number in "
        "the valid range of 50000 to 2147483647.",
    ),
    UNSUPPORTED: ErrorText(16, "The embedded Service Broker does not support %s."),
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

    @property
    def text(self) -> str:
        return str(self.args[0])


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
