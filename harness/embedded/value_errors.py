"""Texts of errors about values: types, literals, conversions, arithmetic, and what a query may hold of them.

`errors.CATALOGUE` has them with all the others.
"""

SYNTAX_ERRORS: dict[int, str] = {  # severity 15
    127: "A TOP N or FETCH rowcount value may not be negative.",
    131: "The size (%s) given to the type '%s' exceeds the maximum allowed for any data type (%s).",
    148: "Incorrect time syntax in time string '%s' used with WAITFOR.",
    164: "Each GROUP BY expression must contain at least one column that is not an outer reference.",
    168: "The floating point value '%s' is out of the range of computer representation (8 bytes).",
    192: "The scale must be less than or equal to the precision.",
    321: (
        '"%s" is not a recognized table hints option. If it is intended as a parameter to a table-valued function or '
        "to the CHANGETABLE function, ensure that your database compatibility mode is set to 90."
    ),
    1001: "Line %s: Length or precision specification %s is invalid.",
    1002: "Line %s: Specified scale %s is invalid.",
    1007: "The number '%s' is out of the range for numeric representation (maximum precision 38).",
    10741: "A TOP can not be used in the same query or sub-query as a OFFSET.",
    10742: "The offset specified in a OFFSET clause may not be negative.",
    10744: "The number of rows provided for a FETCH clause must be greater then zero.",
    1060: ("The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer."),
}

TEXTS: dict[int, str] = {
    448: "Invalid collation '%s'.",
    108: "The ORDER BY position number %s is out of range of the number of items in the select list.",
    145: "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
    157: "An aggregate may not appear in the set list of an UPDATE statement.",
    220: "Arithmetic overflow error for data type %s, value = %s.",
    232: "Arithmetic overflow error for type %s, value = %s.",
    241: "Conversion failed when converting date and/or time from character string.",
    242: "The conversion of a %s data type to a %s data type resulted in an out-of-range value.",
    244: ("The conversion of the %s value '%s' overflowed an %s column. Use a larger integer column."),
    245: "Conversion failed when converting the varchar value '%s' to data type %s.",
    248: "The conversion of the %s value '%s' overflowed an int column.",
    257: ("Implicit conversion from data type %s to %s is not allowed. Use the CONVERT function to run this query."),
    281: "%s is not a valid style number when converting from %s to a character string.",
    305: "The XML data type cannot be compared or sorted, except when using the IS NULL operator.",
    402: "The data types %s and %s are incompatible in the %s operator.",
    408: "A constant expression was encountered in the ORDER BY list, position %s.",
    512: (
        "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, >= or "
        "when the subquery is used as an expression."
    ),
    506: 'The invalid escape character "%s" was specified in a LIKE predicate.',
    517: "Adding a value to a '%s' column caused an overflow.",
    529: "Explicit conversion from data type %s to %s is not allowed.",
    535: (
        "The %s function resulted in an overflow. The number of dateparts separating two date/time instances is too "
        "large. Try to use datediff with a less precise datepart."
    ),
    537: "Invalid length parameter passed to the %s function.",
    701: "There is insufficient system memory in resource pool '%s' to run this query.",
    536: "Invalid length parameter passed to the %s function.",
    1008: (
        "The SELECT item identified by the ORDER BY number %s contains a variable as part of the expression "
        "identifying a column position. Variables are only allowed when ordering by an expression referencing a "
        "column name."
    ),
    1014: "A TOP or FETCH clause contains an invalid value.",
    4127: "At least one of the arguments to COALESCE must be an expression that is not the NULL constant.",
    4151: (
        "The type of the first argument to NULLIF cannot be the NULL constant because the type of the first argument"
        " has to be known."
    ),
    4112: "The function '%s' must have an OVER clause with ORDER BY.",
    2715: "Column, parameter, or variable #%s: Cannot find data type %s.",
    2716: "Column, parameter, or variable #%s: Cannot specify a column width on data type %s.",
    2750: "Column or parameter #%s: Specified column precision %s is greater than the maximum precision of %s.",
    10709: "The number of columns for each row in a table value constructor must be the same.",
    8114: "Error converting data type %s to %s.",
    8115: "Arithmetic overflow error converting expression to data type %s.",
    8116: "Argument data type %s is invalid for an argument of %s function.",
    8117: "Operand data type %s is invalid for %s operator.",
    8120: (
        "Column '%s' is invalid in the select list because it is not contained in either an aggregate function or the "
        "GROUP BY clause."
    ),
    8121: (
        "Column '%s' is invalid in the HAVING clause because it is not contained in either an aggregate function or "
        "the GROUP BY clause."
    ),
    8127: (
        'Column "%s" is invalid in the ORDER BY clause because it is not contained in either an aggregate function '
        "or the GROUP BY clause."
    ),
    8133: (
        "At least one of the result expressions in a CASE specification must be an expression other than the NULL"
        " constant."
    ),
    8134: "Divide by zero error encountered.",
    8152: "String or binary data would be truncated.",
    8169: "Conversion failed when converting from a character string to uniqueidentifier.",
    8170: "Insufficient result space to convert uniqueidentifier value to char.",
    8733: "Separator parameter for %s must be a string literal or variable.",
    9829: "%s aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation.",
    9810: "The datepart %s is not supported by date function %s for data type %s.",
    9812: "The timezone provided to builtin function %s is invalid.",
    8102: "Cannot update identity column '%s'.",
    6335: "XML datatype instance has too many levels of nested nodes. Maximum allowed depth is %s levels.",
    6354: "Target string size is too small to represent the XML instance",
    6355: "Conversion of one or more characters from XML to target collation impossible",
    6359: (
        "Parsing XML with internal subset DTDs not allowed. Use CONVERT with style option 2 to enable limited internal "
        "subset DTD support."
    ),
    9400: "XML parsing: line %s, character %s, unexpected end of input",
    9402: "XML parsing: line %s, character %s, unable to switch the encoding",
    9420: "XML parsing: line %s, character %s, illegal xml character",
    9436: "XML parsing: line %s, character %s, end tag does not match start tag",
    9437: "XML parsing: line %s, character %s, duplicate attribute",
    9448: "XML parsing: line %s, character %s, well formed check: undeclared entity",
    9459: "XML parsing: line %s, character %s, undeclared prefix",
    8623: (
        "The query processor ran out of internal resources and could not produce a query plan. This is a rare event "
        "and only expected for extremely complex queries or queries that reference a very large number of tables or "
        "partitions. Please simplify the query."
    ),
}
