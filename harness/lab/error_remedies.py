"""Remedies for connection and SQL errors, by error number and by words; why a server is out of reach.

SQL Server's own text always comes first; a remedy follows if one is known. Drivers say least about connection failures:
Microsoft's driver reports a closed port, an unknown host and a firewall alike as "Login timeout expired", after the
whole timeout. `out_of_reach` therefore tries a plain TCP connection first.
"""

import errno
import os
import re
import socket

from harness.output.safe_text import visible

KNOCK_TIMEOUT_S = 5.0

_LACKS_A_RIGHT = "the login lacks the right: grant it, or let the harness sign in with a login that has it"
_IN_USE = "end the other sessions in the database, then try again"
_BROKE = "the connection broke: check whether the server has ended"
_TRUST_IT = (
    "trust it as it is: trust_server_certificate = true in lab.toml or the activator's file, "
    "--trust-server-certificate of harness monitors"
)
_NOT_PRIMARY = "connect to the primary replica, or to the listener of its group"
_LOG_FULL = "see log_reuse_wait_desc in sys.databases; make the log file larger or free its disk"

REMEDIES = {
    229: _LACKS_A_RIGHT,
    230: _LACKS_A_RIGHT,
    262: _LACKS_A_RIGHT,
    297: _LACKS_A_RIGHT,
    300: "GRANT VIEW SERVER STATE TO the login",
    916: "give the login a user in that database",
    **dict.fromkeys((954, 976, 978, 983), _NOT_PRIMARY),
    1101: "free space on the disk of the database's files, or let them grow",
    1105: "free space on the disk of the database's files, or let them grow",
    1205: "the statement was a deadlock's victim: try again",
    3906: f"ALTER DATABASE ... SET READ_WRITE; in an availability group {_NOT_PRIMARY}",
    4060: "create it, or give the login a user in it",
    4064: "ALTER LOGIN ... WITH DEFAULT_DATABASE = [master]",
    5011: _LACKS_A_RIGHT,
    5061: _IN_USE,
    5069: _IN_USE,
    5070: _IN_USE,
    7862: "an instance can have one Service Broker endpoint: drop the other, or use another instance",
    9002: _LOG_FULL,
    9692: "give the endpoint another port, or free this one",
    9775: "ALTER DATABASE ... SET READ_WRITE",
    9772: "a copy of the database is on this instance: ALTER DATABASE ... SET NEW_BROKER on one of them",
    15151: "it is missing, or the login may not see it: grant the right to it",
    15247: _LACKS_A_RIGHT,
    15297: "the certificate is damaged: open the lab again",
    15466: "the key was created on another server: ALTER SERVICE MASTER KEY or RESTORE it, or drop the master key",
    15581: "the server cannot open the master key: ALTER MASTER KEY ADD ENCRYPTION BY SERVICE MASTER KEY",
    17810: "an instance has one dedicated administrator connection: close the other",
    18401: "the server is upgrading its databases: try again in a few minutes",
    18452: "integrated authentication needs a login for this account: use a SQL login, or get a Kerberos ticket",
    18456: "check the user's name and password, and that the server accepts SQL logins (mixed mode)",
    18470: "ALTER LOGIN ... ENABLE",
    18486: "ALTER LOGIN ... WITH PASSWORD = ... UNLOCK",
    18487: "ALTER LOGIN ... WITH PASSWORD = ...",
    18488: "ALTER LOGIN ... WITH PASSWORD = ...",
    # FreeTDS's own numbers
    20004: _BROKE,
    20006: _BROKE,
    20017: _BROKE,
    20047: _BROKE,
}
# SQLSTATEs of errors that depend on the statement and its data alone, but for those with these words, as error logs
# have them, or numbers, as a driver has them in every language.
OF_STATEMENT = ("22", "23", "42")
_PASSING = re.compile(
    "deadlock|is full|Could not allocate space|insufficient system memory|LOCK resource|time out"
    r"|\((?:701|1101|1105|1204|1205|1222|8645|9002)\) \(SQL"
)
_HANGS_UP = "whatever listens there closes the connection: check that it is SQL Server and that it is healthy"
_REMEDIES_BY_WORDS = (
    ("SSPI", "get a Kerberos ticket with kinit, or use a SQL login: --user of harness monitors, user in lab.toml"),
    ("Communication link failure", _BROKE),
    ("Query timeout expired", "something blocks the statement: see sys.dm_exec_requests"),
    ("subject name does not match host name", f"write the host as its certificate does, or {_TRUST_IT}"),
    ("certificate verify failed", f"give the server a certificate that this machine can verify, or {_TRUST_IT}"),
    ("Login timeout expired", "no SQL Server answers there: check that it listens there and that it is healthy"),
    ("during handshakes before login", _HANGS_UP),
    ("Unable to connect to data source", _HANGS_UP),
    (
        "Timeout expired",
        "no answer in time: check that it is SQL Server, that it is healthy and that nothing blocks it",
    ),
)
# The drivers for Linux report the end of a connection by Windows' numbers or by the system's own.
_CONNECTION_ENDS = {
    10054: "the server closed the connection",
    10060: "the connection timed out",
    10061: "nothing listens there",
    errno.ECONNRESET: "the server closed the connection",
    errno.EPIPE: "the server closed the connection",
    errno.ETIMEDOUT: "the connection timed out",
    errno.ECONNREFUSED: "nothing listens there",
}
_TCP_CODE = re.compile(r"TCP Provider: Error code 0x[0-9A-F]+(?: \(error (\d+)\))?", re.IGNORECASE)
_ERROR_NUMBER = re.compile(r"\(error (\d+)\)$")
_ODBC_BEGIN = re.compile(r"\[\w{5}\]\s*\[")
_ODBC_STATE = re.compile(r"\[(\w\w)\w{3}\]")
_ODBC_PREFIX = re.compile(r"^(?:\[[^\]]*\])+\s*")
_ODBC_SUFFIX = re.compile(r"\s*\((-?\d+)\) \((SQL\w+)\)$")


def error_text(error: BaseException) -> str:
    """Return SQL Server's text and number from a pyodbc error, with the remedy if one is known, on one line."""
    text = str(error.args[1] if len(error.args) > 1 else error)
    return explain(re.sub(r"^\('?\w*'?,\s*", "", text))


def explain(text: str) -> str:
    """Do the same for an error that is text already. Whatever precedes the driver's words stays."""
    begin = _ODBC_BEGIN.search(text)
    before = ""
    if begin is not None:
        before, text = text[: begin.start()], _ODBC_PREFIX.sub("", text[begin.end() - 1 :])
    first = text.split(";  [")[0]
    numbered = _ODBC_SUFFIX.sub(lambda match: f" (error {match[1]})" if int(match[1]) > 0 else "", first)
    return visible(before + _with_remedy(" ".join(numbered.split())))


def is_lasting(text: str) -> bool:
    """Return whether a driver's text, or one of an error log, says that a statement would fail again as it stands."""
    state = _ODBC_STATE.match(text)
    return (state is None or state[1] in OF_STATEMENT) and _PASSING.search(text) is None


def _with_remedy(text: str) -> str:
    text = _TCP_CODE.sub(lambda match: _CONNECTION_ENDS.get(int(match[1] or 0), match[0]), text)
    for words, remedy in _REMEDIES_BY_WORDS:
        if words in text:
            return f"{text}: {remedy}"
    number = _ERROR_NUMBER.search(text)
    numbered = REMEDIES.get(int(number[1])) if number else None
    return f"{text}: {numbered}" if numbered else text


def out_of_reach(host: str, port: int, timeout_s: float = KNOCK_TIMEOUT_S) -> str:
    """Return why nothing accepts a connection there, with the remedy; "" if something does."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except socket.gaierror:
        return f"the host {host} is unknown: check its name"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s: check host, port and the firewalls between"
    except ConnectionRefusedError:
        return "nothing listens there: start the server, or check host and port"
    except OSError as error:
        return f"{os.strerror(error.errno) if error.errno else error}: check host and port"
    return ""
