"""What the instances are, and which of their settings bend a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.doctor.facts import Facts
from harness.doctor.findings import Finding, error, information, warning
from harness.lab.instances import Lab, LabError

# The first number of ProductVersion; tens of sys.databases.compatibility_level since 2008.
MAJOR_VERSIONS = {
    "2005": 9,
    "2008": 10,
    "2012": 11,
    "2014": 12,
    "2016": 13,
    "2017": 14,
    "2019": 15,
    "2022": 16,
    "2025": 17,
}
_EXPRESS = 4  # SERVERPROPERTY('EngineEdition')
_TEMPDB_FILES_MAX = 8  # more help nobody by themselves: Microsoft's advice, and the paper's number
_UNLIMITED_MB = 2**31 - 1  # max server memory (MB) as it is installed

LICENCE = (
    "Microsoft's licence terms for SQL Server say: \"you must obtain Microsoft's prior written approval to disclose to "
    'a third party the results of any benchmark test of the software"; look into the terms you accepted before you '
    "publish results of this lab"
)


def check_lab(lab: Lab, sides: Sequence[Facts]) -> Iterator[Finding]:
    """What concerns the instances together."""
    builds = {side.name: str(row["product_version"]) for side in sides if (row := side.row("edition"))}
    if len(set(builds.values())) > 1:
        text = "the instances are of different builds: " + ", ".join(
            f"{name} {build}" for name, build in builds.items()
        )
        yield warning(
            "lab", "version", text, "bring all to the same update; what differs otherwise is not the dialog ratio"
        )
    target, *initiators = sides
    for side in initiators:
        if _is_client(target) and _is_client(side):
            text = f"{side.name} and the target are both Express or Web, whose Service Broker is a client only"
            remedy = "let one of the two be Developer, Standard or Enterprise"
            yield error("lab", "edition", f"{text}: they do not talk to each other", remedy)
    if lab.place != "embedded":
        yield information("lab", "licence", LICENCE)


def _is_client(side: Facts) -> bool:
    """ "Web and Express: client only": they exchange messages only by way of a full edition."""
    row = side.row("edition")
    return row is not None and (row["engine_edition"] == _EXPRESS or str(row["edition"]).startswith("Web"))


def check_edition(side: Facts, version: str) -> Iterator[Finding]:
    row = side.row("edition")
    if row is None:
        return
    memory_gb = (row["physical_memory_kb"] or 0) / 1024**2
    yield information(
        side.name,
        "edition",
        f"{row['edition']}, {row['product_version']}, {row['scheduler_count']} of {row['cpu_count']} logical processors"
        f" in use, {memory_gb:.1f} GB of memory to be had",
    )
    wanted = MAJOR_VERSIONS.get(version)
    if wanted is not None and side.major_version != wanted:
        found = {number: name for name, number in MAJOR_VERSIONS.items()}.get(
            side.major_version, row["product_version"]
        )
        remedy = f"say version {found} in lab.toml, or use an instance of {version}"
        yield error(side.name, "version", f"this is SQL Server {found}, the lab is to be of {version}", remedy)
    if _is_client(side):
        text = (
            f"{row['edition']} has a Service Broker client only: limits on processors and memory bend what is measured"
        )
        yield warning(side.name, "edition", text, "use Developer, which has what Enterprise has")


def check_settings(side: Facts) -> Iterator[Finding]:
    """Options of the database that falsify or bend what is measured."""
    row = side.row("database")
    if row is None:
        return
    name, alter = side.name, f"ALTER DATABASE [{row['database_name']}] SET"
    if row["is_read_only"]:
        yield error(name, "database", "the database is read-only", f"{alter} READ_WRITE WITH ROLLBACK IMMEDIATE;")
    if row["user_access"] != "MULTI_USER":
        text = f"the database is {row['user_access']}: the broker is at rest"
        yield error(name, "database", text, f"{alter} MULTI_USER WITH ROLLBACK IMMEDIATE;")
    if row["delayed_durability"] != "DISABLED":
        text = f"delayed durability is {row['delayed_durability']}: commits that do not wait for the log"
        yield warning(name, "database", text, f"{alter} DELAYED_DURABILITY = DISABLED;")
    if row["recovery_model"] != "SIMPLE":
        text = f"the recovery model is {row['recovery_model']}: without log backups the log grows through the sweep"
        yield warning(name, "database", text, f"{alter} RECOVERY SIMPLE;")
    for option in ("auto_shrink", "auto_close"):
        if row[f"is_{option}_on"]:
            yield warning(name, "database", f"{option} is on", f"{alter} {option.upper()} OFF;")
    yield from _to_be_known(side, alter)


def _to_be_known(side: Facts, alter: str) -> Iterator[Finding]:
    row = side.row("database")
    assert row is not None
    if row["page_verify"] not in (None, "CHECKSUM"):
        yield information(
            side.name, "database", f"page verify is {row['page_verify']}", f"{alter} PAGE_VERIFY CHECKSUM;"
        )
    if row["is_query_store_on"]:
        text = "the query store is on and writes along (the default since 2022)"
        yield information(side.name, "database", text, f"{alter} QUERY_STORE = OFF;")
    recovery = side.row("accelerated_recovery")
    if recovery is not None and recovery["is_accelerated_database_recovery_on"]:
        text = "accelerated database recovery is on: row versions, more log"
        yield information(side.name, "database", text, f"{alter} ACCELERATED_DATABASE_RECOVERY = OFF;")
    level = side.major_version * 10
    if level and row["compatibility_level"] < level:
        text = f"the compatibility level is {row['compatibility_level']}, the version's own is {level}"
        yield information(side.name, "database", text, f"{alter} COMPATIBILITY_LEVEL = {level};")


def check_instance(side: Facts) -> Iterator[Finding]:
    options = {row["name"]: row["value_in_use"] for row in side.rows("configuration")}
    if options.get("max server memory (MB)") == _UNLIMITED_MB:
        text = "max server memory is not set: instances on one machine take it from each other"
        remedy = "EXECUTE sp_configure N'max server memory (MB)', ...; RECONFIGURE;"
        yield information(side.name, "memory", text, remedy)
    files, edition = side.row("tempdb_files"), side.row("edition")
    if files is None or edition is None:
        return
    found, processors = files["data_files"], edition["scheduler_count"]
    if found < min(processors, _TEMPDB_FILES_MAX):
        text = f"tempdb has {found} data file{'s' if found != 1 else ''} for {processors} processors"
        text += "; the paper has one a core"
        yield warning(side.name, "tempdb", text, "ALTER DATABASE tempdb ADD FILE (...); all of one size, then restart")


def check_admin_connection(side: Facts) -> Iterator[Finding]:
    """Only over it can the page of a dialog be read. Whether RECONFIGURE opens the port at once shows here."""
    if side.instance.admin_port is None:
        text = "no dedicated administrator connection: the pages of the dialogs are not looked at"
        yield information(side.name, "administrator connection", text)
        return
    try:
        side.instance.connect_admin().close()
    except LabError as reason:
        text = (
            f"the dedicated administrator connection is refused ({reason}): the pages of the dialogs are not looked at"
        )
        remedy = (
            "EXECUTE sp_configure N'remote admin connections', 1; RECONFIGURE; if that stands, restart the instance"
        )
        yield information(side.name, "administrator connection", text, remedy)
    else:
        yield information(side.name, "administrator connection", f"answers on port {side.instance.admin_port}")
