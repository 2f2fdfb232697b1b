"""Check versions and editions of the instances, and the settings that distort a measurement."""

from collections.abc import Iterator, Sequence

from harness.definitions.units import counted
from harness.doctor.facts import Facts, Finding
from harness.files.script_text import quoted
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
_TEMPDB_FILES_MAX = 8  # Microsoft advises to begin with no more, and the paper had eight
_TEMPDB_LOG_MB = 256  # as in containers (container/tempdb.sql)
# With more, SQL Server 2008 R2 wrote message 9017 to its error log; later versions do so from 10,000 on.
_VIRTUAL_LOG_FILES_MAX = 1000
# Windows' own plans; a machine's maker may have others. Source:
# https://learn.microsoft.com/windows/win32/power/power-setting-guids (GUID_POWERSCHEME_PERSONALITY), without Ultimate
_POWER_PLANS = {
    "381b4222-f694-41f0-9685-ff5bb260df2e": "Balanced",
    "a1841308-3541-4fab-bc81-f71556f20b4a": "Power saver",
}
# High performance and Ultimate performance.
_FULL_POWER = ("8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c", "e9a42b02-d5df-448d-aa00-03f14749eb61")
MAX_SERVER_MEMORY, UNLIMITED_MB = "max server memory (MB)", 2**31 - 1  # and its default

LICENCE = (
    "Microsoft's licence terms for SQL Server say: \"you must obtain Microsoft's prior written approval to disclose to "
    'a third party the results of any benchmark test of the software"; read the terms that you accepted before you '
    "publish results of this lab"
)


def check_lab(lab: Lab, sides: Sequence[Facts]) -> Iterator[Finding]:
    """Check what concerns all instances together."""
    builds = {side.name: str(row["product_version"]) for side in sides if (row := side.row("edition"))}
    if len(set(builds.values())) > 1:
        text = "the instances are of different builds: " + ", ".join(
            f"{name} {build}" for name, build in builds.items()
        )
        yield Finding(
            "warning",
            "lab",
            "version",
            text,
            "install the same update everywhere, so that only the dialog ratio differs",
        )
    target, *initiators = sides
    for side in initiators:
        if _is_client(target) and _is_client(side):
            text = f"{side.name} and the target are both Express or Web, whose Service Broker is a client only"
            remedy = "use Developer, Standard or Enterprise for one of the two"
            yield Finding("error", "lab", "edition", f"{text}: they cannot exchange messages", remedy)
    if lab.kind.can.is_measurement:
        yield Finding("information", "lab", "licence", LICENCE)


def _is_client(side: Facts) -> bool:
    """Return whether the edition is "client only" (Web, Express): it exchanges messages only with a full edition."""
    row = side.row("edition")
    return row is not None and (row["engine_edition"] == _EXPRESS or str(row["edition"]).startswith("Web"))


def check_edition(side: Facts, version: str) -> Iterator[Finding]:
    row = side.row("edition")
    if row is None:
        return
    memory_gb = (row["physical_memory_kb"] or 0) / 1024**2
    yield side.information(
        "edition",
        f"{row['edition']}, {row['product_version']}, {row['scheduler_count']} of {row['cpu_count']} logical processors"
        f" in use, {memory_gb:.1f} GB of memory",
    )
    major = MAJOR_VERSIONS.get(version)
    if major is not None and side.major_version != major:
        version_name = {number: name for name, number in MAJOR_VERSIONS.items()}.get(
            side.major_version, row["product_version"]
        )
        remedy = f"set version to {version_name} in lab.toml, or use an instance of {version}"
        yield side.error("version", f"this is SQL Server {version_name}, but the lab is set to {version}", remedy)
    if _is_client(side):
        text = (
            f"{row['edition']} is a Service Broker client only, and its limits on processors and memory distort results"
        )
        yield side.warning("edition", text, "use Developer (2025: Enterprise Developer), with Enterprise's features")


def check_settings(side: Facts) -> Iterator[Finding]:
    """Check the database's options that invalidate or distort a measurement."""
    row = side.row("database")
    if row is None:
        return
    alter = f"ALTER DATABASE {quoted(row['database_name'])} SET"
    if row["is_read_only"]:
        yield side.error("database", "the database is read-only", f"{alter} READ_WRITE WITH ROLLBACK IMMEDIATE;")
    if row["user_access"] != "MULTI_USER":
        text = f"the database is {row['user_access']}: its broker does not run"
        yield side.error("database", text, f"{alter} MULTI_USER WITH ROLLBACK IMMEDIATE;")
    if row["delayed_durability"] != "DISABLED":
        text = f"delayed durability is {row['delayed_durability']}: commits may not wait for the log"
        yield side.warning("database", text, f"{alter} DELAYED_DURABILITY = DISABLED;")
    if row["recovery_model"] != "SIMPLE":
        text = f"the recovery model is {row['recovery_model']}: without log backups the log grows during the sweep"
        yield side.warning("database", text, f"{alter} RECOVERY SIMPLE;")
    for option in ("auto_shrink", "auto_close"):
        if row[f"is_{option}_on"]:
            yield side.warning("database", f"{option} is on", f"{alter} {option.upper()} OFF;")
    yield from _minor_options(side, alter)
    yield side.information("options", _options_in_words(side))


def _options_in_words(side: Facts) -> str:
    row, recovery = side.row("database"), side.row("accelerated_recovery")
    assert row is not None
    options = [
        f"recovery {row['recovery_model']}",
        f"compatibility level {row['compatibility_level']}",
        f"delayed durability {row['delayed_durability']}",
        f"query store {'ON' if row['is_query_store_on'] else 'OFF'}",
    ]
    if recovery is not None:
        options.append(f"accelerated recovery {'ON' if recovery['is_accelerated_database_recovery_on'] else 'OFF'}")
    return ", ".join(options)


def _minor_options(side: Facts, alter: str) -> Iterator[Finding]:
    row = side.row("database")
    assert row is not None
    if row["page_verify"] not in (None, "CHECKSUM"):
        yield side.information("database", f"page verify is {row['page_verify']}", f"{alter} PAGE_VERIFY CHECKSUM;")
    if row["is_read_committed_snapshot_on"]:
        text = "read committed snapshot is on: changed rows are versioned in tempdb"
        yield side.information("database", text, f"{alter} READ_COMMITTED_SNAPSHOT OFF WITH ROLLBACK IMMEDIATE;")
    if row["is_encrypted"]:
        text = "the database is encrypted (TDE), and tempdb with it: each page and log record costs processor time"
        yield side.warning("database", text, f"{alter} ENCRYPTION OFF;")
    if row["group_database_id"] is not None:
        text = "the database is in an availability group: commits wait for secondaries too (wait HADR_SYNC_COMMIT)"
        yield side.warning("database", text, f"{alter} HADR OFF;")
    if row["target_recovery_time_in_seconds"] == 0:
        text = "checkpoints are automatic, and come in bursts"
        yield side.information("database", text, f"{alter} TARGET_RECOVERY_TIME = 60 SECONDS;")
    if row["is_query_store_on"]:
        text = "the query store is on (the default since 2022) and adds writes"
        yield side.information("database", text, f"{alter} QUERY_STORE = OFF;")
    recovery = side.row("accelerated_recovery")
    if recovery is not None and recovery["is_accelerated_database_recovery_on"]:
        text = "accelerated database recovery is on: it adds row versions and log"
        yield side.information("database", text, f"{alter} ACCELERATED_DATABASE_RECOVERY = OFF;")
    level = side.major_version * 10
    if level and row["compatibility_level"] < level:
        text = f"the compatibility level is {row['compatibility_level']} instead of the version's own, {level}"
        yield side.information("database", text, f"{alter} COMPATIBILITY_LEVEL = {level};")


def check_files(side: Facts) -> Iterator[Finding]:
    """Check what makes files slow: a log of many parts, and data files that are filled with zeros when they grow."""
    log, service = side.row("fingerprint_log"), side.row("fingerprint_service")
    if log is not None and log["virtual_log_files"] > _VIRTUAL_LOG_FILES_MAX:
        text = (
            f"the log consists of {log['virtual_log_files']:,} virtual log files, because it grew in many small steps: "
            "the instance starts and recovers slowly"
        )
        name = side.instance.database
        remedy = f"DBCC SHRINKFILE of the log file, then ALTER DATABASE [{name}] MODIFY FILE with its full SIZE at once"
        yield side.information("log", text, remedy)
    if service is not None and service["instant_file_initialization_enabled"] == "N":
        text = "instant file initialization is off: a data file that grows is filled with zeros first"
        remedy = "grant the service's account the right Perform Volume Maintenance Tasks, then restart the instance"
        yield side.information("files", text, remedy)


def check_volumes(side: Facts) -> Iterator[Finding]:
    """Check whether data and log share a volume. The paper's had a LUN each (Appendix A)."""
    types = {row["file_id"]: row["file_type"] for row in side.rows("files")}
    of_type: dict[str, set[str]] = {"ROWS": set(), "LOG": set()}
    for row in side.rows("volumes"):
        of_type[types[row["file_id"]]].add(str(row["volume"]))
    if shared := of_type["ROWS"] & of_type["LOG"]:
        text = f"data and log are both on {', '.join(sorted(shared))}: in the paper each had a volume of its own"
        remedy = "give the server default folders on two volumes; after harness lab clean the database is made there"
        yield side.information("files", text, remedy)


def check_power_plan(side: Facts) -> Iterator[Finding]:
    row = side.row("power_plan")
    plan = row["power_plan"] if row is not None else None
    if plan is not None and plan not in _FULL_POWER:
        text = (
            f"Windows' power plan is {_POWER_PLANS.get(plan, plan)}, not High performance: processors may run slower "
            "than they can, and at another speed in each cell"
        )
        yield side.warning("power", text, f"powercfg /setactive {_FULL_POWER[0]}")


def check_instance(side: Facts) -> Iterator[Finding]:
    options = {row["name"]: row["value_in_use"] for row in side.rows("configuration")}
    if options.get(MAX_SERVER_MEMORY) == UNLIMITED_MB:
        text = "max server memory is not set: instances on one machine compete for memory"
        remedy = "EXECUTE sp_configure N'max server memory (MB)', ...; RECONFIGURE;"
        yield side.information("memory", text, remedy)
    files, edition = side.row("tempdb_files"), side.row("edition")
    if files is None or edition is None:
        return
    data_files, processors = files["data_files"], edition["scheduler_count"]
    if data_files < min(processors, _TEMPDB_FILES_MAX):
        text = f"tempdb has {counted(data_files, 'data file')} for {processors} processors"
        text += "; the paper has one for each core"
        yield side.warning("tempdb", text, "ALTER DATABASE tempdb ADD FILE (...), all of one size; then restart")
    if files["log_mb"] < _TEMPDB_LOG_MB:
        text = f"the log of tempdb has {files['log_mb']} MB: it grows while the target's readers fill table variables"
        remedy = f"ALTER DATABASE tempdb MODIFY FILE (NAME = templog, SIZE = {_TEMPDB_LOG_MB}MB);"
        yield side.information("tempdb", text, remedy)


def check_admin_connection(side: Facts) -> Iterator[Finding]:
    """Check the dedicated administrator connection, which alone can read the pages of dialogs."""
    if side.instance.admin_port is None:
        text = "no dedicated administrator connection: the pages of dialogs cannot be recorded"
        yield side.information("administrator connection", text)
        return
    try:
        side.instance.connect_admin().close()
    except LabError as reason:
        text = f"the dedicated administrator connection is refused ({reason}): the pages of dialogs cannot be recorded"
        remedy = "EXECUTE sp_configure N'remote admin connections', 1; RECONFIGURE; if it is set, restart the instance"
        yield side.information("administrator connection", text, remedy)
    else:
        yield side.information("administrator connection", f"answers on port {side.instance.admin_port}")
