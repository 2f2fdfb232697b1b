"""The tokens of a batch, of the kinds that sqlglot's parser takes.

sqlglot's own tokenizer is that of all dialects: it reads sign by sign, takes `->` and `{%` for signs, and no comment
inside `ORDER BY`. Here one pattern finds each token, and a text that is too much for the parser is not read to its end.
"""

import re
from collections.abc import Callable

from sqlglot.dialects.tsql import TSQL
from sqlglot.tokenizer_core import Token, TokenType

from harness.embedded.errors import SqlServerError, UnsupportedSyntax

TOKENS_MAX = 200_000  # our limit: to compile them takes some ten seconds and 200 MB
PARENTHESES_MAX = 1000  # in each other; sqlglot gives up long before
COMMENTS_MAX = 1000  # in each other, our limit

# Reserved words that begin a statement. Outside parentheses and CASE they end the expression or query before them.
STATEMENT_WORDS = frozenset(
    """
    ADD ALTER BACKUP BEGIN BREAK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE DECLARE DELETE DENY DROP
    ELSE END EXEC EXECUTE FETCH GOTO GRANT IF INSERT KILL MERGE OPEN PRINT RAISERROR RECONFIGURE RESTORE RETURN
    REVERT REVOKE ROLLBACK SAVE SELECT SET SETUSER SHUTDOWN TRUNCATE UPDATE USE WAITFOR WHILE WITH
    """.split()  # noqa: SIM905
)
# "Reserved Keywords (Transact-SQL)", which are no names without quotes; but for DISK, DUMP, LOAD, PRECISION and
# SECURITYAUDIT, which Microsoft's parser takes for names, PUBLIC, which is one in GRANT, and
# DOUBLE, which begins a type.
RESERVED = STATEMENT_WORDS | frozenset(
    """
    ALL AND ANY AS ASC AUTHORIZATION BETWEEN BROWSE BULK BY CASCADE CASE CHECK CLUSTERED COALESCE COLLATE COLUMN
    COMPUTE CONSTRAINT CONTAINS CONTAINSTABLE CONVERT CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER CURSOR DATABASE DEFAULT DESC DISTINCT DISTRIBUTED ERRLVL ESCAPE EXCEPT EXISTS EXIT EXTERNAL
    FILE FILLFACTOR FOR FOREIGN FREETEXT FREETEXTTABLE FROM FULL FUNCTION GROUP HAVING HOLDLOCK IDENTITY
    IDENTITYCOL IDENTITY_INSERT IN INDEX INNER INTERSECT INTO IS JOIN KEY LEFT LIKE LINENO NATIONAL NOCHECK
    NONCLUSTERED NOT NULL NULLIF OF OFF OFFSETS ON OPENDATASOURCE OPENQUERY OPENROWSET OPENXML OPTION OR ORDER
    OUTER OVER PERCENT PIVOT PLAN PRIMARY PROC PROCEDURE READ READTEXT REFERENCES REPLICATION RESTRICT RIGHT
    ROWCOUNT ROWGUIDCOL RULE SCHEMA SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYDETAILSTABLE
    SEMANTICSIMILARITYTABLE SESSION_USER SOME STATISTICS SYSTEM_USER TABLE TABLESAMPLE TEXTSIZE THEN TO TOP TRAN
    TRANSACTION TRIGGER TRY_CONVERT TSEQUAL UNION UNIQUE UNPIVOT UPDATETEXT USER VALUES VARYING VIEW WHEN WHERE
    WRITETEXT
    """.split()  # noqa: SIM905
)
# Words that are not reserved and have a meaning in a query
CONTEXTUAL = frozenset("APPLY FIRST NEXT OFFSET RANGE ROWS".split())  # noqa: SIM905
_MEANT = RESERVED | CONTEXTUAL
# Without the words of other dialects, which are names
KEYWORDS = {
    word: kind for word, kind in TSQL.Tokenizer.KEYWORDS.items() if word in _MEANT or kind in TSQL.Parser.TYPE_TOKENS
}
# What sqlglot takes for one token. Blanks and comments may stand between the words.
JOINED = {
    ("ORDER", "BY"): TokenType.ORDER_BY,
    ("GROUP", "BY"): TokenType.GROUP_BY,
    ("PARTITION", "BY"): TokenType.PARTITION_BY,
    ("DOUBLE", "PRECISION"): TokenType.DOUBLE,
    ("CHAR", "VARYING"): TokenType.VARCHAR,
    ("CHARACTER", "VARYING"): TokenType.VARCHAR,
}
SIGNS = TSQL.Tokenizer.SINGLE_TOKENS | {
    **{sign: TSQL.Tokenizer.KEYWORDS[sign] for sign in ("<=", ">=", "<>", "!=", "::")},
    **{"!<": TokenType.GTE, "!>": TokenType.LTE, "!": TokenType.UNKNOWN},
}

_TOKEN = re.compile(
    r"""
    \s*+ (?:
        (?P<end> \Z)
      | (?P<string> (?P<national> [Nn])?+ '(?P<value> [^']*+(?:''[^']*+)*+)')
      | (?P<name> "[^"]*+(?:""[^"]*+)*+" | \[[^\]]*+(?:\]\][^\]]*+)*+\])
      | (?P<variable> @[\w@#$]*+)
      | (?P<binary> 0[xX][0-9A-Fa-f]*+)
      | (?P<number> [0-9]++(?:\.[0-9]*+)?+(?:[eE](?:[+-](?=[0-9]))?+[0-9]*+)?+)
      | (?P<comment> --[^\r\n]*+ | /\*)
      | (?P<pseudo> %%\w++%%)
      | (?P<sign> [<>!]\s*+= | <\s*+> | !\s*+[<>] | :: | [][(){}&^:,.=<>%!|+;/\\*~?#`'"-])
      | (?P<word> [^][(){}&^:,.=<>%!|+;/\\*~?`'"\s-]++)
    )
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"/\*|\*/")


def _string(match: re.Match[str]) -> tuple[TokenType, str]:
    return TokenType.NATIONAL_STRING if match["national"] else TokenType.STRING, match["value"].replace("''", "'")


def _name(match: re.Match[str]) -> tuple[TokenType, str]:
    quoted = match["name"]
    return TokenType.IDENTIFIER, quoted[1:-1].replace(quoted[-1] * 2, quoted[-1])


# The kind and the text of a token
_READ: dict[str, Callable[[re.Match[str]], tuple[TokenType, str]]] = {
    "string": _string,
    "name": _name,
    "binary": lambda match: (TokenType.HEX_STRING, match["binary"][2:]),
    "number": lambda match: (TokenType.NUMBER, match["number"]),
    "pseudo": lambda match: (TokenType.VAR, match["pseudo"]),  # %%physloc%%
    "sign": lambda match: (SIGNS["".join(match["sign"].split())], match["sign"]),
    "word": lambda match: (KEYWORDS.get(match["word"].upper(), TokenType.VAR), match["word"]),
}


def tokenize(text: str) -> list[Token]:
    """The tokens of a text without its comments. 105 or 113 for what is not closed, 191 and 701 beyond the limits."""
    tokens: list[Token] = []
    at = counted = depth = 0
    line, before = 1, ""  # the word just before
    while True:
        match = _TOKEN.match(text, at)
        assert match is not None and match.lastgroup is not None
        group, start, at = match.lastgroup, match.start(match.lastgroup), match.end()
        line, counted = line + text.count("\n", counted, start), start
        if group == "end":
            return tokens
        if group == "comment":
            at = _comment_end(text, start, line) if match["comment"] == "/*" else at
            continue
        word = match["word"].upper() if group == "word" else ""
        if group == "variable":
            signs = 2 if text.startswith("@@", start) else 1
            tokens += [Token(TokenType.PARAMETER, "@", line, 1, place, place) for place in range(start, start + signs)]
            start += signs
            kind, value = TokenType.VAR, text[start:at]  # "" for a variable that is called @ alone
        elif (before, word) in JOINED:
            kind, value, start = JOINED[before, word], f"{before} {word}", tokens.pop().start
        else:
            kind, value = _READ[group](match)
        tokens.append(Token(kind, value, line, 1, start, at - 1))
        before = word
        if group == "sign":
            if value in "'\"[":
                raise SqlServerError(105, text[at:][:128].strip(), line=line)
            depth += (value == "(") - (value == ")")
            if depth > PARENTHESES_MAX:
                raise SqlServerError(191, line=line)
        if len(tokens) > TOKENS_MAX:
            raise SqlServerError(701, "internal", line=line)


def _comment_end(text: str, start: int, line: int) -> int:
    """The end of a comment, in which comments may be nested."""
    depth = 0
    for sign in _COMMENT.finditer(text, start):
        depth += 1 if sign[0] == "/*" else -1
        if depth > COMMENTS_MAX:
            raise UnsupportedSyntax(f"more than {COMMENTS_MAX} comments in each other", line)
        if depth == 0:
            return sign.end()
    raise SqlServerError(113, line=line)
