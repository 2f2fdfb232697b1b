"""The doctor: finds what is wrong with a linked lab, and what to do about it, before a sweep runs on it.

It reads the facts of every instance with the queries of `sql/doctor` (`facts`), compares both sides of every link, and
sends a probe message over each link and back (`probe`). It reports `Finding`s: one line with the instance, the check,
the problem and the remedy. The checks depend on the facts alone and change nothing:

- `services`: brokers, the database's owner, service, queue, activation, contract, message type
- `transport`: routes to the other side, those of msdb for arriving messages, endpoints and who may connect
- `dialog_security`: master keys, certificates of dialogs and their copies, binding, right to send
- `instance_settings`: version, edition, options that distort a measurement
- `commits`: how long a single commit takes, of which the log's disk decides, and how the log is flushed
- `space`: disk, log and memory for the largest planned cell
- `machine`: clocks, processors and disks that are shared

They cover what `ssbdiagnose CONFIGURATION` covers, and identify objects by what they do instead of by name: an
endpoint's certificate is found in the other side's master by its thumbprint, whatever its name there.

What cannot be known, because a right is missing or the server does not say, becomes a warning, never a guess. The
doctor repairs nothing; `file_sizes` says which files a run enlarges first. What the probe creates in the lab's
databases it removes again. No probe is sent between two sides if one of them has an error.
"""

from collections.abc import Callable, Sequence

from harness.definitions.matrix import Cell
from harness.definitions.units import counted
from harness.doctor import commits, dialog_security, instance_settings, machine, probe, services, space, transport
from harness.doctor.facts import Facts, Finding, UnfitLab, raise_errors, read, read_files, worst_first
from harness.files.script_text import ScriptError
from harness.files.settings import Settings
from harness.lab import instance_clock
from harness.lab.instances import Lab, connections, in_parallel
from harness.lab.link import FileSizes, local_name
from harness.lab.placement import DISK
from harness.output.reporting import Reporter

__all__ = ["Finding", "UnfitLab", "examine", "file_sizes", "raise_errors"]


def examine(lab: Lab, *, cells: Sequence[Cell], settings: Settings, reporter: Reporter | None = None) -> list[Finding]:
    """Examine a linked lab without dialogs, which takes seconds. Returns all findings, the worst first.

    `reporter` counts the checks that take long: the facts, the commits of each instance, the probe.
    """
    reporter = reporter or Reporter()
    reporter.begin(2 + len(lab.instances), 0, unit="check")
    reporter.phase(f"facts of {counted(len(lab.instances), 'instance')}")
    with connections(lab.instances) as opened:
        sides = in_parallel(read, lab.instances, [local_name(instance) for instance in lab.instances], opened)
        clocks = in_parallel(instance_clock.measure, opened)
        findings = [*configuration(lab, sides), *machine.check_placement(lab), *machine.check_governor(lab)]
        reporter.cell_done(1, f"facts of {counted(len(lab.instances), 'instance')}", "completed", "")
        for number, measured in enumerate(zip(sides, opened, clocks, strict=True), 2):
            of_side = f"commits of {measured[0].instance.name}"
            reporter.phase(of_side)
            findings += commits.check(*measured, kind=lab.kind)
            reporter.cell_done(number, of_side, "completed", "")
    for side, clock in zip(sides, clocks, strict=True):
        findings += machine.check_clock(side, clock)
        findings += machine.check_processors(side, lab.placement)
        if lab.kind.can.is_measurement and side is not sides[0]:
            findings += machine.check_schedulers(side)
            findings += machine.check_round_trip(side, clock)
    needs = _needs(lab, cells, settings)
    if DISK in lab.placement.shared:
        findings += space.check_shared_disk(sides, needs)
    for side, need in zip(sides, needs, strict=True):
        findings += instance_settings.check_admin_connection(side)
        findings += commits.check_flushing(side)
        if need is not None:
            findings += space.check_space(side, need, has_data_files=lab.kind.can.has_data_files)
            if lab.kind.can.has_data_files:
                findings += space.check_memory(side, need)
    reporter.phase("a message to the target and back")
    findings += _probed(lab, sides, findings)
    reporter.cell_done(2 + len(lab.instances), "a message to the target and back", "completed", "")
    return worst_first(findings)


def file_sizes(
    lab: Lab, *, cells: Sequence[Cell], settings: Settings, tell: Callable[[str], None]
) -> dict[str, FileSizes]:
    """Return the sizes that files of the lab should get before these cells, by instance, and tell them."""
    with connections(lab.instances) as opened:
        names = [local_name(instance) for instance in lab.instances]
        sides = in_parallel(read_files, lab.instances, names, opened)
    needs = _needs(lab, cells, settings)
    return space.file_sizes(sides, needs, on_one_disk=DISK in lab.placement.shared, tell=tell)


def _needs(lab: Lab, cells: Sequence[Cell], settings: Settings) -> list[space.Need | None]:
    """Return what the largest of these cells needs on each instance of the lab."""
    return space.needs_of([cell for cell in cells if cell.server_version == lab.version], settings, len(lab.instances))


def configuration(lab: Lab, sides: Sequence[Facts]) -> list[Finding]:
    """Check the facts of the target, the first of `sides`, and of the initiators."""
    target, *initiators = sides
    findings: list[Finding] = [*instance_settings.check_lab(lab, sides)]
    for side in sides:
        findings += side.unanswered()
        findings += _alone(lab, side, is_target=side is target)
    for side in initiators:
        findings += services.check_agreement(target, side)
        findings += transport.check_encryption(side, target)
        for near, other in ((side, target), (target, side)):
            findings += transport.check_route(near, other)
            findings += transport.check_admission(near, other)
            if lab.security.dialog:
                findings += dialog_security.check_copy(near, other)
                findings += dialog_security.check_right_to_send(near, other, is_target=near is target)
        if lab.security.dialog:
            findings += dialog_security.check_binding(side, target)
    return findings


def _alone(lab: Lab, side: Facts, *, is_target: bool) -> list[Finding]:
    findings = [
        *instance_settings.check_edition(side, lab.version),
        *instance_settings.check_settings(side),
        *instance_settings.check_instance(side),
        *instance_settings.check_files(side),
        *(instance_settings.check_volumes(side) if lab.kind.can.has_data_files else ()),
        *instance_settings.check_power_plan(side),
        *services.check_broker(side),
        *services.check_owner(side),
        *services.check_service(side, is_target=is_target, max_queue_readers=lab.variables["MaxQueueReaders"]),
        *services.check_contract(side, is_target=is_target),
        *transport.check_configuration_service(side),
        *transport.check_arriving(side),
        *transport.check_endpoint(side, lab.security),
        *transport.check_certificate(side),
        *dialog_security.check_master_keys(side, lab.security),
    ]
    if lab.security.dialog:
        return [*findings, *dialog_security.check_certificate(side)]
    return [*findings, *dialog_security.check_unsecured(side, is_target=is_target)]


def _probed(lab: Lab, sides: Sequence[Facts], findings: Sequence[Finding]) -> list[Finding]:
    """Probe the links between sides without an error."""
    faulty = {finding.instance for finding in findings if finding.severity == "error"}
    target, *initiators = sides
    sound = [] if faulty & {target.name, "lab"} else [side for side in initiators if side.name not in faulty]
    skipped = [
        side.information("probe", "no probe message was sent: remedy the errors first")
        for side in initiators
        if side not in sound
    ]
    if not sound:
        return skipped
    try:
        return [*probe.there_and_back(lab, [target, *sound]), *skipped]
    except ScriptError as reason:
        lab.check()
        remedy = "give the login db_owner in the lab's databases"
        return [Finding("warning", "lab", "probe", f"no probe message could be sent: {reason}", remedy), *skipped]
