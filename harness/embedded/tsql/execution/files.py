"""ALTER DATABASE on files, and RECONFIGURE, compiled."""

from __future__ import annotations

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.instance import database_files
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.syntax import files as nodes


def alter_database_files(node: nodes.AlterDatabaseFiles, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.tx is not None:
            raise SqlServerError(226, "ALTER DATABASE")
        instance = frame.instance
        database = instance.database(node.name) if node.name else frame.database
        for given in node.files:
            changes = {
                name: value
                for name in ("physical_name", "size", "max_size", "growth")
                if (value := getattr(given, name)) is not None
            }
            if given.growth is not None:
                changes["is_percent_growth"] = given.is_percent_growth
            if node.verb == "MODIFY FILE":
                instance.files.modify(tx, database, given.name, changes)
                continue
            kind: database_files.FileType = "LOG" if "LOG" in node.verb else "ROWS"
            instance.files.add(tx, database, database_files.File(0, kind, given.name, **changes))

    return writing(work)


def reconfigure(node: nodes.Reconfigure, scope: Scope) -> Step:
    def work(frame: Frame, tx: Transaction) -> None:
        if frame.session.tx is not None:
            raise SqlServerError(574, "RECONFIGURE")
        frame.instance.configuration.reconfigure()

    return writing(work)
