"""Many seeds, each on a copy of one linked world, by two worker processes; or one seed, told at length."""

from __future__ import annotations

import contextlib
import os
import pickle
import shlex
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from selectors import EVENT_READ, DefaultSelector

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness import settings as settings_module
from harness.failures import MachineFailure
from harness.lab.processes import die_with_parent
from harness.simulation import copies, parameters
from harness.simulation.faults import plan, scenario
from harness.simulation.faults.scenario import Outcome, Prepared

SEEDS_DEFAULT = 1000
WORKERS = 2
_SHOWN_MAX = 10  # violations of one seed; others of its kind say no more
_LENGTH = struct.Struct(">I")
FIRST_LINE = (
    "lab: simulated - a model of the hardware {hardware!r} in virtual time; faults beside the load, "
    "judged from what clients were told and what the target's tables hold"
)


class WorkerDied(MachineFailure):
    """A worker process has ended before its seeds were done."""


@dataclass
class Summary:
    """What many seeds came to."""

    hardware: str
    seeds: int = 0
    faults: int = 0
    stored: int = 0
    told: dict[str, int] = field(default_factory=dict)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.faults += outcome.faults
        self.stored += outcome.stored
        for what, count in outcome.told.items():
            self.told[what] = self.told.get(what, 0) + count
        if outcome.violations:
            self.failed.append(outcome)
            self.failed.sort(key=lambda one: one.seed)

    def line(self, duration_s: float) -> str:
        calls = sum(self.told.values())
        cut_off = self.told.get("cut off", 0)
        verdict = f"{len(self.failed)} failed" if self.failed else "all checks hold"
        return (
            f"{self.seeds} seeds in {duration_s:.0f} s: {verdict}; {self.faults} faults, {calls} calls, of which "
            f"{cut_off} were cut off, {self.stored} messages stored"
        )


def command(seed: int, hardware: str) -> str:
    """What repeats a seed."""
    return f"harness simulate --faults --seed {seed} --hardware {shlex.quote(hardware)}"


def simulate_faults(
    seeds: int | None,
    seed: str | None,
    *,
    hardware: str | None,
    announce: Callable[[str], None],
    console_is_terminal: bool,
) -> Summary:
    """Runs the seeds and says what they came to: `seed` alone is that one, `seeds` are so many from there on."""
    settings = settings_module.create_simulation({"seed": seed, "hardware": hardware})
    count = seeds or (SEEDS_DEFAULT if seed is None else 1)
    wanted = range(settings.seed, settings.seed + count)
    model = parameters.read(settings.hardware)
    announce(FIRST_LINE.format(hardware=settings.hardware))
    began_s = time.monotonic()
    prepared = scenario.prepare(model)
    summary = Summary(settings.hardware)
    if count == 1:
        outcome = run_seed(prepared, settings.seed)
        summary.add(outcome)
        for line in (*told_at_length(outcome), verdict(outcome, settings.hardware)):
            announce(line)
        return summary
    with _progress(wanted, announce, console_is_terminal) as tell:

        def ended(outcome: Outcome) -> None:
            summary.add(outcome)
            if outcome.violations:  # at once: who interrupts the rest keeps it
                announce(verdict(outcome, settings.hardware))
            tell(outcome)

        many(prepared, wanted, ended)
    if summary.failed:
        for line in told_at_length(summary.failed[0]):
            announce(line)
    announce(summary.line(time.monotonic() - began_s))
    return summary


def told_at_length(outcome: Outcome) -> Iterator[str]:
    """The seed's timeline, and what was violated."""
    yield f"seed {outcome.seed}:"
    yield from (f"  {line}" for line in outcome.timeline)
    for violation in outcome.violations[:_SHOWN_MAX]:
        yield f"  violated - {violation}"
    if (more := len(outcome.violations) - _SHOWN_MAX) > 0:
        yield f"  and {more} more"
    yield f"  {outcome.summary}; trace {outcome.trace[:16]}"


def verdict(outcome: Outcome, hardware: str) -> str:
    if outcome.violations:
        return f"seed {outcome.seed} failed; again: {command(outcome.seed, hardware)}"
    return f"seed {outcome.seed}: all checks hold"


# Workers


def many(prepared: Prepared, seeds: Sequence[int], ended: Callable[[Outcome], None]) -> None:
    """Each seed on a copy of the prepared world; `ended` hears of each as it ends. WorkerDied where one is killed."""
    copies.prepare()
    workers = min(WORKERS, len(seeds))
    pipes: dict[int, int] = {}  # of workers, by pid
    try:
        for number in range(workers):
            pid, pipe = _start(prepared, seeds[number::workers])
            pipes[pid] = pipe
        _collect(pipes, len(seeds), ended)
    finally:
        for pid, pipe in pipes.items():
            os.close(pipe)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run_seed(prepared: Prepared, seed: int) -> Outcome:
    return scenario.run(prepared, plan.make(seed))


def _start(prepared: Prepared, seeds: Sequence[int]) -> tuple[int, int]:
    """A worker's process and the end of the pipe on which its outcomes come."""
    parent_pid = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        die_with_parent(parent_pid)
        for seed in seeds:
            try:
                outcome = copies.in_copy(partial(run_seed, prepared, seed))
            except Exception as error:
                outcome = Outcome(seed, [f"the scenario broke: {error}"])
            packed = pickle.dumps(outcome)
            _write(writing, _LENGTH.pack(len(packed)) + packed)
    except BaseException:  # Ctrl-C, or nobody listens any more: the parent says what there is to say
        os._exit(1)
    finally:
        os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _collect(pipes: dict[int, int], expected: int, ended: Callable[[Outcome], None]) -> None:
    buffers = dict.fromkeys(pipes.values(), b"")
    with DefaultSelector() as selector:
        for pipe in buffers:
            selector.register(pipe, EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                buffers[key.fd] += data
                while (outcome := _taken(buffers, key.fd)) is not None:
                    expected -= 1
                    ended(outcome)
    if expected:
        raise WorkerDied(f"a worker process has ended before its time; {expected} seeds have not run: begin again")


def _taken(buffers: dict[int, bytes], pipe: int) -> Outcome | None:
    buffer = buffers[pipe]
    if len(buffer) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
    if len(buffer) < end:
        return None
    buffers[pipe] = buffer[end:]
    outcome: Outcome = pickle.loads(buffer[_LENGTH.size : end])
    return outcome


# How far it is


@contextlib.contextmanager
def _progress(
    seeds: Sequence[int], announce: Callable[[str], None], is_terminal: bool
) -> Iterator[Callable[[Outcome], None]]:
    """A bar with the time left on a terminal, else a line for every tenth of the seeds."""
    if not is_terminal:
        yield _Lines(len(seeds), announce)
        return
    columns = (TextColumn("seed"), MofNCompleteColumn(), BarColumn(bar_width=24), TimeRemainingColumn())
    with Progress(*columns, TextColumn("left  {task.fields[failed]}"), console=Console()) as progress:
        task = progress.add_task("", total=len(seeds), failed="")
        failed: list[int] = []

        def tell(outcome: Outcome) -> None:
            if outcome.violations:
                failed.append(outcome.seed)
            progress.update(task, advance=1, failed=f"{len(failed)} failed" if failed else "")

        yield tell


class _Lines:
    def __init__(self, total: int, announce: Callable[[str], None]) -> None:
        self._total, self._announce = total, announce
        self._done = self._failed = 0
        self._began_s = time.monotonic()

    def __call__(self, outcome: Outcome) -> None:
        self._done += 1
        self._failed += bool(outcome.violations)
        if self._done % -(-self._total // 10) == 0 and self._done < self._total:
            left_s = (time.monotonic() - self._began_s) / self._done * (self._total - self._done)
            self._announce(f"{self._done} of {self._total} seeds, {self._failed} failed, {left_s:.0f} s left")
