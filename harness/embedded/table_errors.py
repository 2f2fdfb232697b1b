"""Texts of errors about tables, their columns and keys. `errors.CATALOGUE` has them with all the others."""

SYNTAX_ERRORS: dict[int, str] = {  # severity 15
    1038: (
        "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a name. For "
        'other statements, look for empty alias names. Aliases defined as "" or [] are not allowed. Change the alias '
        "to a valid name."
    ),
}

TEXTS: dict[int, str] = {
    515: "Cannot insert the value NULL into column '%s', table '%s'; column does not allow nulls. %s fails.",
    1505: (
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '%s' and "
        "the index name '%s'. The duplicate key value is %s."
    ),
    1752: "Column '%s' in table '%s' is invalid for creating a default constraint.",
    1779: "Table '%s' already has a primary key defined on it.",
    1781: "Column already has a DEFAULT bound to it.",
    2627: (
        "Violation of %s constraint '%s'. Cannot insert duplicate key in object '%s'. The duplicate key value is %s."
    ),
    2705: "Column names in each table must be unique. Column name '%s' in table '%s' is specified more than once.",
    2744: "Multiple identity columns specified for table '%s'. Only one identity column per table is allowed.",
    2749: (
        "Identity column '%s' must be of data type int, bigint, smallint, tinyint, or decimal or numeric with a scale "
        "of 0, unencrypted, and constrained to be nonnullable."
    ),
    2752: "Identity column '%s' contains invalid SEED.",
    2753: "Identity column '%s' contains invalid INCREMENT.",
    4901: (
        "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified, "
        "or the column being added is an identity or timestamp column, or alternatively if none of the previous "
        "conditions are satisfied the table must be empty to allow addition of this column. Column '%s' cannot be "
        "added to non-empty table '%s' because it does not satisfy these conditions."
    ),
    4902: 'Cannot find the object "%s" because it does not exist or you do not have permissions.',
    8111: "Cannot define PRIMARY KEY constraint on nullable column in table '%s'.",
}
