"""Equipment that every cell needs beside its dialogs: Locust, a lab, open and examined, observers and connections."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from harness import doctor
from harness.definitions import lab_kinds
from harness.definitions.matrix import Cell
from harness.files.settings import Settings
from harness.lab import interruption, link
from harness.lab.instances import Lab, connections, in_parallel
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab
from harness.load.locust_clients import Elsewhere, LocustClients
from harness.observe import Observers
from harness.observe.error_logs import ErrorLogs
from harness.observe.machine_use import MachineTotals, machine_use, others_percent
from harness.observe.snapshots import changes, fingerprint, snapshot
from harness.output.reporting import Reporter
from harness.run import run_folder
from harness.run.attempt import Clients, Equipment
from harness.run.validity import OTHERS_PERCENT_MAX, STEAL_PERCENT_MAX

IDLE_S = 1.0  # for which the load of other processes is looked at


class Preflight:
    """Examines the lab of each version once. What it finds goes into the manifest; an error ends the run."""

    def __init__(
        self,
        settings: Settings,
        cells: Sequence[Cell],
        results: Path,
        reporter: Reporter,
        examined: Callable[[], None] = lambda: None,
    ) -> None:
        """`examined` is called each time that a lab has been examined."""
        self.settings = settings
        self.cells = cells
        self.results = results
        self.reporter = reporter
        self._then = examined
        self._examined: set[str] = set()
        self._noted: set[str] = set()
        self.others_percent = 0.0  # of the processors' time: what other processes used before the first cell
        self._at_begin = MachineTotals.now()
        self._is_stolen_from = False

    def note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.reporter.note(text)

    def stolen_percent(self) -> float:
        """Return how much of the processors' time the hypervisor took since the run began. Tell of much once."""
        percent = machine_use(self._at_begin, MachineTotals.now(), instances_s=0.0).steal_percent
        if percent > STEAL_PERCENT_MAX and not self._is_stolen_from:
            self._is_stolen_from = True
            finding = _stolen(percent)
            self.reporter.note(str(finding))
            current = run_folder.read_manifest(self.results)
            for findings in current["findings"].values():
                findings.append(asdict(finding))
            run_folder.write_manifest(self.results, current)
        return percent

    def examine(self, lab: Lab) -> None:
        """Raise the doctor's failure where a finding is an error. Files are enlarged each time that a lab opens."""
        cells = [cell for cell in self.cells if cell.server_version == lab.version]
        if lab.version not in self._examined:
            self._examine_anew(lab, cells)
        if lab.kind.can.has_data_files:
            sizes = doctor.file_sizes(lab, cells=cells, settings=self.settings, tell=self.note_once)
            link.enlarge_files(lab, sizes)
        self._then()

    def _examine_anew(self, lab: Lab, cells: Sequence[Cell]) -> None:
        is_first = not self._examined
        self._examined.add(lab.version)
        findings = doctor.examine(lab, cells=cells, settings=self.settings)
        if is_first:
            findings += self._look_at_others(lab)
        self._write(lab, findings)
        for finding in findings:
            if finding.severity == "warning" or (is_first and finding.check == "licence"):
                self.reporter.note(str(finding))
        doctor.raise_errors(findings)

    def _look_at_others(self, lab: Lab) -> list[doctor.Finding]:
        """Find who else works on this machine and in the instances, while this run does nothing."""
        instances = lab.instances if lab.kind.can.is_measurement else []
        names = [instance.name for instance in instances]
        with connections(instances) as opened:
            before = dict(zip(names, in_parallel(snapshot, opened), strict=True))
            self.others_percent = others_percent(IDLE_S)
            after = dict(zip(names, in_parallel(snapshot, opened), strict=True))
        findings = [_busy(self.others_percent)] if self.others_percent > OTHERS_PERCENT_MAX else []
        use = changes(before, after).get("processors", {})  # nothing where no login may see it
        for name, window_ns, time_ms, processors in zip(*use.values(), strict=True):
            if (percent := 1e8 * time_ms / (window_ns * processors)) > OTHERS_PERCENT_MAX:
                findings.append(_busy_instance(name, percent))
        return findings

    def _write(self, lab: Lab, findings: Sequence[doctor.Finding]) -> None:
        with connections(lab.instances) as opened:
            fingerprints = in_parallel(fingerprint, opened, [instance_.log_storage for instance_ in lab.instances])
        current = run_folder.read_manifest(self.results)
        known_instances = {(row["lab_version"], row["name"]) for row in current["instances"]}
        for instance, identity, facts in zip(lab.instances, lab.identities, fingerprints, strict=True):
            if (lab.version, instance.name) not in known_instances:
                row = {key: str(value) for key, value in identity.items() if key != "service_broker_guid"}
                row |= {"name": instance.name, "lab_version": lab.version, "encrypt": instance.encrypt}
                current["instances"].append({**row, "fingerprint": facts})
        if any(lab_kinds.EMBEDDED_EDITION in str(identity["edition"]) for identity in lab.identities):
            current["lab"] = (
                lab_kinds.EMBEDDED.name
            )  # whatever the servers were called, their numbers are not SQL Server's
        current.setdefault("placement", {})[lab.version] = lab.placement.record
        current["findings"][lab.version] = [asdict(finding) for finding in findings]
        run_folder.write_manifest(self.results, current)


def _busy_instance(name: str, percent: float) -> doctor.Finding:
    text = (
        f"uses {percent:.0f} % of its processors while this run does nothing: rates are those of what others leave, "
        "and they may leave another share from cell to cell"
    )
    return doctor.Finding("warning", name, "load", text, "measure when nobody else uses the server, with --repeats 5")


def _busy(percent: float) -> doctor.Finding:
    text = (
        f"other processes use {percent:.0f} % of the processors' time: rates are those of what they leave, and compare "
        f"only with one another; a cell counts unless they use {OTHERS_PERCENT_MAX:.0f} % more"
    )
    return doctor.Finding("warning", "lab", "load", text, "end them for rates of the whole machine")


def _stolen(percent: float) -> doctor.Finding:
    text = (
        f"the hypervisor takes {percent:.0f} % of the processors' time: rates are those of what it leaves, and compare "
        f"only with one another; a cell counts unless it takes {STEAL_PERCENT_MAX:.0f} % more"
    )
    return doctor.Finding("warning", "lab", "load", text, "use a machine with processors of its own for other rates")


def locust_clients(preflight: Preflight) -> LocustClients:
    """The clients of a run, which all its labs share; raises UsageFailure where the settings cannot be met."""
    return LocustClients(
        log_directory=preflight.results / "lab" / "logs",
        elsewhere=Elsewhere.of(preflight.settings),
        per_initiator=preflight.settings.workers_per_initiator,
        tell=preflight.reporter.note,
    )


class LabEquipment:
    """Opens a version's lab, and closes it. Use it from the main thread."""

    def __init__(self, topology: Topology, preflight: Preflight, clients: Clients) -> None:
        self.parts: Equipment | None = None
        self._topology = topology
        self._preflight = preflight
        self._clients = clients
        self._exits = contextlib.ExitStack()

    def open(self, version: str, initiators: int) -> Equipment:
        """Raise LabError, ScriptError, LoadError or ChildError where the lab is not available."""
        directory = self._preflight.results / "lab" / version
        lab = self._exits.enter_context(
            open_lab(
                self._topology,
                version=version,
                initiators=initiators,
                directory=directory,
                driver=self._preflight.settings.driver,
                watch=interruption.check,
                tell=self._preflight.reporter.note,
                is_patient=False,
            )
        )
        preflight = self._preflight
        self._exits.callback(ErrorLogs(lab.instances, version, preflight.results, preflight.note_once).keep)
        self._exits.callback(lab.end_pulse)  # first: the others do without an instance that is dead
        preflight.examine(lab)
        self.parts = self._connected(lab)
        return self.parts

    def without_conversations(self) -> Equipment:
        """End every conversation. That disconnects every session in the databases, so connections are new."""
        assert self.parts is not None
        lab = self.parts.lab
        _release(self.parts)
        link.remove_conversations(lab)
        self.parts = self._connected(lab)
        return self.parts

    def close(self) -> None:
        """End the lab; never raise."""
        parts, self.parts = self.parts, None
        if parts is not None:
            _release(parts)
        exits, self._exits = self._exits, contextlib.ExitStack()
        with contextlib.suppress(Exception):
            exits.close()

    def _connected(self, lab: Lab) -> Equipment:
        return Equipment(
            lab,
            self._clients,
            Observers(lab.instances, tell=self._preflight.note_once, sampled=self._preflight.reporter.sampled),
            lab.target.connect(),
            [instance.connect() for instance in lab.initiators],
        )


def _release(parts: Equipment) -> None:
    parts.observers.close()
    for connection in (parts.target, *parts.initiators):
        interruption.close(connection)
