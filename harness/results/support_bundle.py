"""One zip file of a run to attach to a question: findings, error logs, tables, versions and settings, without a secret.

It has texts alone. Each is cleaned of the passwords and tokens that this process knows, of whatever looks like one, and
of control characters. Raw records, figures and the longest tables stay out. Names of servers, logins and databases stay
in. A run with a link is refused (`run_folder.require_run`), as is one by every other command.
"""

import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.files import journal, manifest_file, records
from harness.files.records import NotWritable
from harness.lab import compose
from harness.observe.error_logs import FOLDER as ERROR_LOGS
from harness.observe.queue_sizes import NAME as QUEUE_SIZES
from harness.output.safe_text import visible_lines

NAME = "support-bundle.zip"
LONG_TABLES = ("bins", "seconds")
TEXT_BYTES_MAX = 4 * 1024**2  # of a file: more is cut off at its beginning, as the end says why something failed
REMOVED = "[removed]"
_SHORTEST_SECRET = 4  # characters: a shorter one would be found everywhere
# Variables that hold secrets: HARNESS_PASSWORD_TARGET, HARNESS_TOKEN, MSSQL_SA_PASSWORD.
_SECRET_NAME = re.compile(r"(?:HARNESS|MSSQL)\w*(?:PASSWORD|TOKEN)\w*")
# What follows PWD=, PASSWORD =, HARNESS_PASSWORD_TARGET= and the like: a value in quotes or braces, or one word.
_LOOKS_SECRET = re.compile(
    r"""(?<![A-Z])((?:PWD|PASSWORD|PASSPHRASE|TOKEN|SECRET)(?:_\w+)?)(["']?\s*[=:]\s*)"""
    r"""(N?'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|\{(?:[^}]|\}\})*\}|[^\s;,'"{}]+)""",
    re.IGNORECASE,
)


def write(run: Path) -> Path:
    """Write the bundle into the folder of a run, whole or not at all, and return it; raises NotWritable."""
    path = run / NAME
    secrets = _secrets()
    try:
        with records.written_whole(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("findings.txt", cleaned(_findings(manifest_file.read(run)), secrets))
            for part in _parts(run):
                if part.is_file():
                    bundle.writestr(str(part.relative_to(run)), cleaned(_text(part), secrets))
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def cleaned(text: str, secrets: list[str]) -> str:
    """Return the text without these secrets, without what looks like one, and without control characters."""
    for secret in secrets:
        text = text.replace(secret, REMOVED).replace(json.dumps(secret)[1:-1], REMOVED)
    return visible_lines(_LOOKS_SECRET.sub(rf"\1\2{REMOVED}", text))


def _parts(run: Path) -> Iterator[Path]:
    """The texts of a run, and of the runs of its techniques, that exist."""
    yield from (path for name in (manifest_file.NAME, journal.NAME, QUEUE_SIZES) for path in sorted(run.rglob(name)))
    yield from sorted((run / ERROR_LOGS).glob("*.log"))
    yield from sorted((run / "lab").rglob("*.log"))
    yield from (path for path in sorted((run / "reduced").glob("*.csv")) if path.stem not in LONG_TABLES)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TEXT_BYTES_MAX))
        text = file.read().decode("utf-8", errors="replace")
    return text if size <= TEXT_BYTES_MAX else f"[the first {size - TEXT_BYTES_MAX:,} bytes are left out]\n{text}"


def _findings(manifest: Mapping[str, Any]) -> str:
    lines = [
        f"{version}: {finding['severity']}: {finding['instance']}, {finding['check']}: {finding['text']}"
        f"{'; remedy: ' + finding['remedy'] if finding['remedy'] else ''}\n"
        for version, findings in (manifest.get("findings") or {}).items()
        for finding in findings
    ]
    return "".join(lines) or "the lab of this run was not examined\n"


def _secrets() -> list[str]:
    """The values of the variables that hold secrets, the longest first."""
    by_name = [value for name, value in os.environ.items() if _SECRET_NAME.fullmatch(name)]
    secrets = {value for value in (*by_name, compose.value("MSSQL_SA_PASSWORD")) if len(value) >= _SHORTEST_SECRET}
    return sorted(secrets, key=len, reverse=True)
