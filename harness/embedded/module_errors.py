"""Texts of errors about procedures and triggers. `errors.CATALOGUE` has them with all the others."""

SYNTAX_ERRORS: dict[int, str] = {  # severity 15
    154: "%s is not allowed in a procedure, function or trigger.",
    178: "A RETURN statement with a return value cannot be used in this context.",
    2103: "Cannot %s trigger '%s' because its schema is different from the schema of the target table or view.",
    2108: "Cannot create trigger on '%s' as the target is not in the current database.",
    2110: (
        "Cannot alter trigger '%s' on '%s' because this trigger does not belong to this object. Specify the correct "
        "trigger name or the correct target object name."
    ),
}

TEXTS: dict[int, str] = {
    201: "Procedure or function '%s' expects parameter '%s', which was not supplied.",
    217: "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit %s).",
    266: (
        "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous count "
        "= %s, current count = %s."
    ),
    286: "The logical tables INSERTED and DELETED cannot be updated.",
    334: (
        "The target table '%s' of the DML statement cannot have any enabled triggers if the statement contains an "
        "OUTPUT clause without INTO clause."
    ),
    2812: "Could not find stored procedure '%s'.",
    3609: "The transaction ended in the trigger. The batch has been aborted.",
    3616: (
        "An error was raised during trigger execution. The batch has been aborted and the user transaction, if any, "
        "has been rolled back."
    ),
    8144: "Procedure or function %s has too many arguments specified.",
    8143: "Parameter '%s' was supplied multiple times.",
    8145: "%s is not a parameter for procedure %s.",
    8162: (
        'The formal parameter "%s" was not declared as an OUTPUT parameter, but the actual parameter passed in '
        "requested output."
    ),
    8178: "The parameterized query expects the parameter '%s', which was not supplied.",
    8179: "Could not find prepared statement with handle %s.",
    8197: "The object '%s' does not exist or is invalid for this operation.",
    15600: "An invalid parameter or option was specified for procedure '%s'.",
}
