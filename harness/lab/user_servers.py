"""The sqlserver lab on servers that a user names in lab.toml, on Windows or Linux.

`start` checks everything before it creates anything: it signs in to all servers, compares versions, checks rights,
reads what exists and refuses to touch what belongs to others. Then it says what it will create, and creates the
databases with their ledgers (see `ledger`), which list beforehand all that `link` will create. It first removes what an
earlier opening left, so a lab always begins empty. A closed lab stays on the servers, for inspection; `clean` removes
it.
"""

import contextlib
import getpass
import ipaddress
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.definitions.lab_kinds import SERVERS
from harness.failures import Declined, MachineFailure, UsageFailure
from harness.files import settings
from harness.files.lab_file import LEAST, MAJORS, LabFile, Server
from harness.lab import error_remedies, existing_database, interruption, ledger, pool_dialogs, scripts
from harness.lab.drivers import LOGIN_TIMEOUT_S, Connection, Driver, Secret
from harness.lab.existing_database import Thing
from harness.lab.instances import SIDES, Instance, Lab, LabError, Login, connections, in_parallel
from harness.lab.ledger import Holdings, place

Tell = Callable[[str], None]

_PASSWORD = "HARNESS_PASSWORD"
_KNOCK_TIMEOUT_S = 1.0  # for a port that should be closed, or lies behind a firewall
_AZURE_EDITIONS = frozenset({5, 6, 8, 9, 11})  # of SERVERPROPERTY('EngineEdition')
_MARKETING = {major: version for version, major in MAJORS.items()}
_asked: dict[Server, Secret] = {}


class PasswordMissing(UsageFailure):
    """A password is not in the environment, and nobody can be asked for it."""


def lab_of(lab_file: LabFile, *, initiators: int, directory: Path, driver: Driver, signs_in: bool = True) -> Lab:
    """Return the servers of a lab file as a lab, without asking any of them; raises LabError if they are too few.

    Without `signs_in` no password is needed, and nobody can connect.
    """
    if initiators > len(lab_file.initiators):
        raise LabError(
            f"{initiators} initiators are needed and {lab_file.where('initiator')} names {len(lab_file.initiators)}: "
            "add an [[initiator]] for each, or use fewer"
        )
    servers = (lab_file.target, *lab_file.initiators[:initiators])
    target, *others = (instance_of(server, driver, signs_in=signs_in) for server in servers)
    return Lab(SERVERS, lab_file.version, target, others, directory, prefix=lab_file.prefix)


def prepare(lab_file: LabFile, lab: Lab, tell: Tell, confirm: Callable[[str], bool]) -> None:
    """Prepare the servers for `link.link`, if `confirm` agrees to what is told; else raise Declined.

    A lab that was created by script is prepared for `link.adopt`. Raises LabError if that is not possible. Then nothing
    was created, or what was created is removed again.
    """
    if lab_file.by_script:
        return _adopt(lab_file, lab, tell)
    instances, servers = lab.instances, (lab_file.target, *lab_file.initiators[: len(lab.initiators)])
    _refuse_dialogs_of_clients(lab_file, lab)
    plans = [ledger.planned(instance, _others(lab, instance), lab.prefix) for instance in instances]
    with connections(instances, "master") as opened:
        lab.watch()
        _refuse_other_servers(lab_file, instances, opened)
        holdings = in_parallel(
            lambda instance, connection: ledger.read_holdings(instance, connection, lab.prefix), instances, opened
        )
        _refuse_collisions(lab_file, servers, instances, holdings, plans)
        lab.watch()
        _check_rights(instances, opened, tell)
        for instance, connection in zip(instances, opened, strict=True):
            ledger.refuse_if_in_use(instance, connection)
        holdings = _remove_leftovers(lab, opened, holdings, tell)
        _plan_existing(lab_file, lab, opened, plans, tell)
        in_parallel(lambda server, instance: _refuse_taken_port(lab_file, server, instance), servers, instances)
        for row in zip(instances, holdings, plans, strict=True):
            tell(ledger.description(*row))
        tell("harness lab clean removes all of this")
        if not confirm("Create this?"):
            raise Declined("nothing was created on the servers")
        lab.watch()
    try:
        with connections(instances, "master") as opened:
            in_parallel(ledger.begin, instances, opened, holdings, plans)
        lab.watch()
    except BaseException as error:
        lab.end_pulse()
        # If the name was in use, somebody else has just created that database: it is not removed.
        unsure = [] if ledger.is_name_taken(error) else [not held.exists for held in holdings]
        abandon(lab, tell, [instance for instance, ours in zip(instances, unsure, strict=False) if ours])
        raise


def _adopt(lab_file: LabFile, lab: Lab, tell: Tell) -> None:
    """Take a lab that an administrator has created with the files of `script_files`.

    The login needs db_owner in the lab's databases and VIEW SERVER STATE. Raises LabError where the lab is not there,
    PasswordMissing without the password of the test clients' login.
    """
    password = settings.secret(settings.CLIENT_PASSWORD)
    if not password:
        raise PasswordMissing(
            f"set {settings.CLIENT_PASSWORD} in the environment: the ClientPassword with which an administrator has "
            "executed the files of harness doctor --script"
        )
    with connections(lab.instances, "master") as opened:
        _refuse_other_servers(lab_file, lab.instances, opened)
        for instance, connection in zip(lab.instances, opened, strict=True):
            if not ledger.read_holdings(instance, connection, lab.prefix).is_ours:
                raise LabError(
                    f"{place(instance)}: there is no database {instance.database} with the harness's mark: execute the "
                    f"files of harness doctor --script, or set by_script = false ({lab_file.where('by_script')})"
                )
            ledger.refuse_if_in_use(instance, connection)
        _check_rights(lab.instances, opened, tell, creates=False)
    for instance in lab.initiators:
        instance.client = Login(f"{lab.prefix}Client", Secret(password))


def abandon(lab: Lab, tell: Tell, unmarked: Sequence[Instance] = ()) -> None:
    """Remove what a failed opening has created. Raises nothing, so that the user sees the first failure.

    `unmarked` are instances whose database this process has created and perhaps not marked yet. A server that does not
    answer is waited for once.
    """

    @contextlib.contextmanager
    def still_there(instance: Instance) -> Iterator[None]:
        try:
            yield
        except (MachineFailure, OSError) as error:
            tell(f"{place(instance)} still has what was created ({error}): remove it with harness lab clean")

    def reached(instance: Instance) -> Connection | None:
        with still_there(instance):
            return instance.connect("master")
        return None

    tell(f"removing what was created (a server that does not answer is given up after {LOGIN_TIMEOUT_S} s)")
    with contextlib.ExitStack() as exits:
        answers = zip(lab.instances, in_parallel(reached, lab.instances), strict=True)
        opened = [(instance, connection) for instance, connection in answers if connection is not None]
        for _, connection in opened:
            exits.callback(interruption.close, connection)
        if len(opened) == len(lab.instances):
            with contextlib.suppress(MachineFailure, OSError):
                holdings = [ledger.read_holdings(*pair, lab.prefix) for pair in opened]
                _end_dialogs(lab.instances, [connection for _, connection in opened], holdings)
        for instance, connection in opened:
            with still_there(instance):
                held = ledger.read_holdings(instance, connection, lab.prefix)
                ledger.remove(instance, connection, held, lab.prefix, lambda text: None)
                if held.exists and not held.is_ours and instance in unmarked:
                    scripts.run(connection, "server/drop_database.sql", {"Database": instance.database})


def close(lab: Lab) -> None:
    """End the lab's dialogs in databases that existed before. Raises nothing: `clean` ends those that are left."""
    if any(instance.is_existing for instance in lab.instances):
        with contextlib.suppress(MachineFailure, OSError), connections(lab.instances, "master") as opened:
            target, *initiators = zip(lab.instances, opened, strict=True)
            pool_dialogs.end(target, initiators)


def clean(lab_file: LabFile, *, driver: Driver, tell: Tell, confirm: Callable[[str], bool]) -> None:
    """Show what the ledgers list and remove it, and nothing else.

    Instances that cannot be reached are left for the next time: LabError names the first, after all others are done.
    """
    failures: list[str] = []
    ours: list[tuple[Instance, Holdings]] = []
    for server in lab_file.servers:
        instance = instance_of(server, driver)
        try:
            with connections([instance], "master") as (connection,):
                holdings = ledger.read_holdings(instance, connection, lab_file.prefix)
                ledger.refuse_if_in_use(instance, connection)
        except MachineFailure as error:
            failures.append(str(error))
            tell(f"cannot read the ledger: {error}")
            continue
        for line in _description(instance, holdings):
            tell(line)
        instance.is_existing = holdings.mark == "existing"
        if holdings.is_left_over:
            ours.append((instance, holdings))
    if failures and any(instance.is_existing and instance.name == SIDES[0][0] for instance, _ in ours):
        tell("the target is left for the next time: only the initiators know which of its conversations are the lab's")
        ours = [(instance, holdings) for instance, holdings in ours if instance.name != SIDES[0][0]]
    if ours and confirm("Remove this?"):
        instances = [instance for instance, _ in ours]
        try:
            with connections(instances, "master") as opened:
                _end_dialogs(instances, opened, [holdings for _, holdings in ours])
        except MachineFailure as error:
            failures.append(str(error))
            ours = []
        for instance, holdings in ours:
            try:
                with connections([instance], "master") as (connection,):
                    ledger.remove(instance, connection, holdings, lab_file.prefix, tell)
            except MachineFailure as error:
                text = str(error)
                failures.append(text if text.startswith(place(instance)) else f"{place(instance)}: {text}")
    elif ours:
        tell("nothing was removed")
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise LabError(f"not everything could be removed: {failures[0]}{more}; remedy this and run the command again")


def password_for(server: Server) -> Secret:
    """Return a server's password from the environment, else ask for it once. Without a terminal: PasswordMissing."""
    variable = f"{_PASSWORD}_{server.role.upper().replace('-', '_')}"
    is_side = variable in settings.SECRETS  # of a lab, and not one that is only looked at
    value = (is_side and settings.secret(variable)) or settings.secret(_PASSWORD) or _asked.get(server)
    if not value and sys.stdin is not None and sys.stdin.isatty():
        value = getpass.getpass(f"Password of {server.user} on {server.role} ({server.host}:{server.port}): ")
    if not value:
        raise PasswordMissing(
            f"{server.role} ({server.host}:{server.port}): there is no password for {server.user}: set "
            f"{f'{variable}, or {_PASSWORD} for all servers,' if is_side else _PASSWORD} in the environment"
        )
    _asked[server] = Secret(value)
    return _asked[server]


# -- parts of start ----------------------------------------------------------------------------------------------------


def instance_of(server: Server, driver: Driver, *, signs_in: bool = True) -> Instance:
    """Return how to connect to a server. Asks for a password that is needed and not in the environment."""
    login = None
    if server.user is not None and signs_in:
        login = Login(server.user, password_for(server), is_entra=server.authentication == "entra")
    return Instance(
        name=server.role,
        database=server.database,
        host=server.host,
        port=server.port,
        broker_port=server.broker_port,
        driver=driver,
        login=login,
        broker_host=server.broker_host,
        listener_ip=_listener_ip(server),
        admin_port=server.admin_port,
        encrypt=server.encrypt,
        trust_server_certificate=server.trust_server_certificate,
        is_existing=server.existing_database is not None,
    )


def _listener_ip(server: Server) -> str:
    """Return the loopback address if all instances are on one machine, so that no other reaches it; else ALL."""
    if not server.is_local:
        return "ALL"
    try:
        address = ipaddress.ip_address(server.broker_host)
    except ValueError:
        return "(127.0.0.1)"
    return f"({address})" if address.version == 4 else f"('{address}')"


def _others(lab: Lab, instance: Instance) -> Sequence[Instance]:
    return lab.initiators if instance is lab.target else [lab.target]


def _refuse_other_servers(lab_file: LabFile, instances: Sequence[Instance], opened: Sequence[Connection]) -> None:
    """Raise LabError if a server is not what the lab file says, or if two sides are one instance."""
    identities: list[dict[str, Any]] = in_parallel(
        lambda instance, connection: scripts.rows(connection, "server/identity.sql", {})[0], instances, opened
    )
    known_servers: dict[tuple[str, int], Instance] = {}
    for instance, row in zip(instances, identities, strict=True):
        number = str(row["product_version"])
        major, *_ = parts = tuple(map(int, number.split(".")))
        if row["engine_edition"] in _AZURE_EDITIONS:
            raise LabError(f"{place(instance)} is a service of Azure, which a lab cannot link: use SQL Server")
        if major != MAJORS[lab_file.version]:
            name = f"SQL Server {_MARKETING[major]}" if major in _MARKETING else "SQL Server of another version"
            raise LabError(
                f"{place(instance)} is {name} ({number}), but {lab_file.where('version')} says {lab_file.version}: "
                "correct the version, or use another server"
            )
        if parts < LEAST:
            raise LabError(f"{place(instance)} is SQL Server 2016 ({number}): install Service Pack 1 or a later one")
        if row["process_id"] is not None:
            same = known_servers.setdefault((str(row["server_name"]), int(row["process_id"])), instance)
            if same is not instance:
                raise LabError(
                    f"{place(instance)} and {place(same)} are one instance ({row['server_name']}): give each side its "
                    "own, because an instance has only one Service Broker endpoint"
                )


def _refuse_collisions(
    lab_file: LabFile,
    servers: Sequence[Server],
    instances: Sequence[Instance],
    holdings: Sequence[Holdings],
    plans: Sequence[Sequence[Thing]],
) -> None:
    lines: list[str] = []
    for server, instance, held, plan in zip(servers, instances, holdings, plans, strict=True):
        lines += ledger.refusals(instance, held, plan, lab_file, server)
    _raise_first(lines)


def _refuse_dialogs_of_clients(lab_file: LabFile, lab: Lab) -> None:
    """Raise LabError if clients begin dialogs themselves in an application's database: nothing lists them."""
    client = lab.workload.client
    for server, instance in zip(lab_file.servers, lab.instances, strict=False):
        if instance.is_existing and client.begins_dialogs:
            where = lab_file.where_of(server, "existing_database")
            raise LabError(
                f"{lab.workload.where('client', 'parameters')}: the dialogs that {client.procedure} begins could not "
                f"be distinguished from others of {instance.database} ({where}): let it send on a handle that it gets"
            )


def _plan_existing(
    lab_file: LabFile, lab: Lab, opened: Sequence[Connection], planned: Sequence[list[Thing]], tell: Tell
) -> None:
    """Add to the plans what is created in existing databases. Raises LabError if one of them does not suit."""
    refusals: list[str] = []
    for server, instance, connection, things in zip(lab_file.servers, lab.instances, opened, planned, strict=False):
        if not instance.is_existing:
            continue
        instance.names = lab.workload.names
        plan = existing_database.plan(lab, instance, connection, _others(lab, instance))
        where = f"{place(instance)}: {instance.database} ({lab_file.where_of(server, 'existing_database')})"
        refusals += [f"{where}: {reason}" for reason in plan.refusals]
        things.extend(plan.created)
        instance.kept = frozenset(thing.kind for thing in plan.found)
        if plan.found:
            tell(f"{instance.name} uses as they are: {', '.join(map(str, plan.found))}")
    _raise_first(refusals)


def _raise_first(lines: Sequence[str]) -> None:
    if lines:
        raise LabError(lines[0] + (f" (and {len(lines) - 1} more like it)" if len(lines) > 1 else ""))


def _refuse_taken_port(lab_file: LabFile, server: Server, instance: Instance) -> None:
    """Raise LabError if something listens on the broker's port.

    CREATE ENDPOINT succeeds on a port that is in use, but the endpoint then never listens; only the error log says so.
    """
    if error_remedies.out_of_reach(instance.host, instance.broker_port, _KNOCK_TIMEOUT_S):
        return
    raise LabError(
        f"{place(instance)}: something already listens on port {instance.broker_port}: free it, or choose another "
        f"({lab_file.where_of(server, 'broker_port')})"
    )


def _check_rights(
    instances: Sequence[Instance], opened: Sequence[Connection], tell: Tell, *, creates: bool = True
) -> None:
    """Raise LabError if a login lacks a right that it needs; remark on the others.

    One that creates nothing needs no right in master and on logins and endpoints.
    """
    lacking = in_parallel(_missing_rights, instances, opened)
    if not creates:
        inside = [
            {"VIEW SERVER STATE", "sysadmin", f"CONTROL on the database {instance.database}"} for instance in instances
        ]
        lacking = [
            [row for row in rows if row["permission"] in names] for rows, names in zip(lacking, inside, strict=True)
        ]
    for instance, missing in zip(instances, lacking, strict=True):
        required = [right for right in missing if right["is_required"]]
        if required:
            first, *other_rights = required
            login_words = instance.login.user if instance.login else "this account"
            line = f"{place(instance)}: {login_words} lacks {first['permission']}, needed for {first['needed_for']}: "
            line += first["remedy"]
            if other_rights:
                more = ", ".join(right["permission"] for right in other_rights)
                line += f" It also lacks {more}; sql/server/minimal_rights.sql grants all"
            raise LabError(line)
    for instance, missing in zip(instances, lacking, strict=True):
        for right in missing:
            tell(f"{instance.name}: without {right['permission']}, the run does not include {right['needed_for']}")


def _missing_rights(instance: Instance, connection: Connection) -> list[dict[str, Any]]:
    """Return the rows of server/rights.sql for what the login lacks, in the order in which it is needed."""
    rows = scripts.rows(connection, "server/rights.sql", {"Database": instance.database})
    return [row for row in rows if row["is_held"] != 1]


def _remove_leftovers(
    lab: Lab, opened: Sequence[Connection], holdings: Sequence[Holdings], tell: Tell
) -> list[Holdings]:
    """Remove what an earlier opening left, and return what exists afterwards."""
    left: list[Holdings] = []
    _end_dialogs(lab.instances, opened, holdings)
    for instance, connection, held in zip(lab.instances, opened, holdings, strict=True):
        if held.is_left_over:
            tell(f"{instance.name}: removing what an earlier opening left")
            ledger.remove(instance, connection, held, lab.prefix, lambda text: None)
            held = ledger.read_holdings(instance, connection, lab.prefix)  # noqa: PLW2901
            lab.watch()
        left.append(held)
    return left


def _end_dialogs(instances: Sequence[Instance], opened: Sequence[Connection], holdings: Sequence[Holdings]) -> None:
    """End the dialogs of an earlier lab where a database existed before it."""
    rows = zip(instances, opened, holdings, strict=True)
    left = {instance.name: (instance, connection) for instance, connection, held in rows if held.is_left_over}
    target = left.pop(SIDES[0][0], None)
    pool_dialogs.end(target, list(left.values()))


# -- parts of clean ----------------------------------------------------------------------------------------------------


def _description(instance: Instance, holdings: Holdings) -> list[str]:
    """Describe what `clean` has found on an instance."""
    if holdings.exists and not holdings.is_ours:
        return [f"{place(instance)}: the database {instance.database} does not carry the harness's mark: left alone"]
    if not holdings.exists:
        line = f"{place(instance)}: there is no database {instance.database}, so no ledger and nothing to remove"
        things = sorted(thing for thing in holdings.found if thing.kind != "master key")
        if things:
            line += f"; left alone, because no ledger lists it: {' '.join(thing.drop for thing in things)}"
        return [line]
    lines = [f"{place(instance)}: {thing.kind} {thing.name}" for thing in holdings.listed if thing.kind != "database"]
    if holdings.mark == "existing":
        return [*lines, f"{place(instance)}: these of the database {instance.database}, which itself stays"]
    scope_words = "all in the database" if holdings.mark == "prepared" else "database"
    if holdings.mark == "prepared" and not holdings.listed:
        return [f"{place(instance)}: the database {instance.database} is prepared and empty"]
    return [*lines, f"{place(instance)}: {scope_words} {instance.database}"]
