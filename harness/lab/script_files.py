"""What the harness executes on a user's own servers, as files for change control: `harness doctor --script`.

For each side there are three files, in the order in which they are executed: `1-ROLE-create.sql`, which ends with what
the other sides need of this one, `2-ROLE-connect.sql`, which takes that, and `3-ROLE-remove.sql`. They are made by the
functions that link a lab (`link`, `ledger`), so they are what is executed, but for passwords, certificates and broker
instances: these are sqlcmd's variables, which the head of a file lists.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.failures import MachineFailure
from harness.lab import ledger, link, scripts
from harness.lab.existing_database import Thing
from harness.lab.instances import Instance, Lab, LabError
from harness.lab.link import Remote, Variables, local_name

_LATER = "harness_variable_"  # in place of a value that only the one who executes a file knows
_VARIABLE = re.compile(rf"{_LATER}(\w+)")
Step = tuple[str, Variables]


def write(lab: Lab, folder: Path) -> list[Path]:
    """Write the files of a lab that is not open, and return them; raises MachineFailure."""
    if existing := [instance.name for instance in lab.instances if instance.is_existing]:
        raise LabError(
            f"the database of {existing[0]} exists, so what is created in it depends on what it has: harness doctor "
            "says so, and asks first"
        )
    link.name_variables(lab)
    try:
        return sorted(_written(lab, folder))
    except OSError as error:
        raise MachineFailure(f"{folder} cannot be written: {error.strerror}") from None


def _written(lab: Lab, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for instance in lab.instances:
        far_sides = lab.initiators if instance is lab.target else [lab.target]
        steps = {
            "1": ("create", _created(lab, instance, far_sides)),
            "2": ("connect", _connected(lab, instance, far_sides)),
            "3": ("remove", _removed(lab, instance, far_sides)),
        }
        for number, (verb, of_step) in steps.items():
            path = folder / f"{number}-{instance.name}-{verb}.sql"
            path.write_text(_text(instance, of_step), encoding="utf-8")
            yield path


def _created(lab: Lab, instance: Instance, far_sides: Iterable[Instance]) -> list[Step]:
    variables = link.side_variables(lab, instance, _later("MasterKeyPassword"))
    variables["ClientPassword"] = _later("ClientPassword")
    database = {"Database": instance.database}
    things = [*ledger.planned(instance, far_sides, lab.prefix), Thing("database", instance.database)]
    return [
        ("server/create_database.sql", database),
        ("server/owner.sql", database),  # the harness's login owns what it creates; an administrator should not
        ("server/ledger.sql", database),
        *(("server/record.sql", database | {"Class": thing.kind, "Name": thing.name}) for thing in things),
        *link.creation(lab, instance, variables),
        *link.securing(lab, instance, variables),
        ("observe/instance.sql", {}),
        ("link/export_endpoint_certificate.sql", variables),
        *([("link/export_dialog_certificate.sql", variables)] if lab.security.dialog else []),
    ]


def _connected(lab: Lab, instance: Instance, far_sides: Iterable[Instance]) -> list[Step]:
    steps: list[Step] = []
    for other in far_sides:
        name = local_name(other)
        remote = Remote(
            link.route_to(other, _later(f"{name}BrokerInstance")),
            _later(f"{name}EndpointCertificate"),
            _later(f"{name}DialogCertificate"),
        )
        variables = {
            **lab.variables,
            **instance.variables,
            "RemoteName": name,
            "LoginPassword": _later("LoginPassword"),
        }
        steps += link.introduction(lab, instance, variables, remote)
    return steps


def _removed(lab: Lab, instance: Instance, far_sides: Iterable[Instance]) -> list[Step]:
    database = {"Database": instance.database, "Prefix": lab.prefix}
    things = ledger.planned(instance, far_sides, lab.prefix)
    return [
        ("reset/broker.sql", database),
        *(
            (path, database | {"Name": thing.name})
            for kind, path in ledger.REMOVALS.items()
            for thing in things
            if thing.kind == kind
        ),
        ("server/drop_master_key.sql", database),
        ("server/drop_database.sql", database),
    ]


def _later(name: str) -> str:
    return f"{_LATER}{name}"


def _text(instance: Instance, steps: Iterable[Step]) -> str:
    parts = []
    for path, variables in steps:
        batches = "".join(f"{batch.text.strip()}\nGO\n" for batch in scripts.load(path, variables))
        parts.append(f"-- sql/{path}\n{batches}")
    body = "\n".join(parts)
    names = sorted(set(_VARIABLE.findall(body)))
    body = _VARIABLE.sub(r"$(\1)", body)
    asked = f"sqlcmd's variables, which nothing in this file sets: {', '.join(names)}" if names else "no variables"
    return f"-- {instance.name}, {instance.host}:{instance.port}; {asked}.\n\n{body}"
