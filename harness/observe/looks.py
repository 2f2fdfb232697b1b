"""A look at all instances of a lab each second, for the page of `harness ui`.

A look is one sample of each instance's observer, all asked at the same moment, and what the latch watches have seen
since the look before. It holds charts: numbers by name of the chart and of the series.

- `depth`: messages in the queues and in the transmission queues
- `rate`: messages sent and processed per second, of the broker's counters SQL SENDs/sec and Enqueued Messages/sec: what
  was put into the target's queue and does not lie in it has been received
- `end_to_end_ms`: latency of the messages that the target processed in the last second, of at most 500 of them; missing
  where there are none, or the target stores none
- `wait_ms`: how long a message waits on average in all queues, by Little's law: messages that wait, on average of both
  looks, / sent or processed per second, whichever is more; missing while nothing is processed. In the second in which a
  load begins hardly anything is processed yet, so that rate alone would make minutes of it
- `readers`, `activations`: queue readers of the target, and how many were started per second
- `target_waits`, `initiator_waits`: ms waited per second, by wait type
- `target_latches`, `initiator_latches`: tasks that wait for a page, on average, by the object of the page

A chart that is missing is not known in this look; a series that is missing from its chart is zero. Rates begin with the
second look.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from harness.lab.instances import Instance
from harness.observe.latch_watch import LatchWatch, Watched
from harness.observe.observers import END_TO_END, WAITS, Observer, Recording

TARGET = "target"
NO_OBJECT = "unknown object"
# More series in one chart could not be read.
WAIT_TYPES_MAX = 8
ANSWER_WITHIN_S = 10
LATCHES_WITHIN_S = 0.3  # the pages' objects of most looks are known by then; else the next look has them

Chart = dict[str, float]


@dataclass
class Look:
    """What one look has found."""

    at_s: float
    charts: dict[str, Chart] = field(default_factory=dict)
    monitors: dict[str, str] = field(default_factory=dict)  # instance and queue -> state of its queue monitor
    failures: list[str] = field(default_factory=list)  # of instances of which this look says nothing


class Read:
    """The sample of one instance, by metric and label."""

    def __init__(self, at_ns: int, samples: Iterable[tuple[str, str, float]]) -> None:
        self.at_ns = at_ns
        self.values: dict[str, Chart] = defaultdict(dict)
        for metric, label, value in samples:
            self.values[metric][label] = value

    def total(self, metric: str) -> float:
        return sum(self.values[metric].values())

    def counter(self, name: str) -> float:
        """Return a counter that the instance has once, or the one of its total."""
        counters = self.values["counter"]
        return counters.get(name, counters.get(f"{name}\\_Total", 0.0))


Reads = Mapping[str, Read]  # by instance; those that failed are missing


def read(recordings: Mapping[str, Recording]) -> tuple[Reads, list[str]]:
    """Return the samples by instance, and why some are missing."""
    reads: dict[str, Read] = {}
    failures: list[str] = []
    for name, recording in recordings.items():
        failures += [f"{name}: {text}" for text in recording.failures]
        if not recording.failures:
            reads[name] = Read(recording.samples[0][0], (sample for _, sample in recording.samples))
    return reads, failures


def charts(before: Reads, now: Reads) -> dict[str, Chart]:
    """Return the charts of a look but those of latches, with rates where the look before has the same instance."""
    charts_: dict[str, Chart] = {}
    target, initiators = now.get(TARGET), {name: sample for name, sample in now.items() if name != TARGET}
    if target is not None and initiators:
        charts_["depth"] = {
            "target's queue": target.total("queue_depth"),
            "initiators' transmission queues": _sum(initiators.values(), "transmission_queue_depth"),
            "target's transmission queue": target.total("transmission_queue_depth"),
            "initiators' queues": _sum(initiators.values(), "queue_depth"),
        }
    if target is not None:
        inside = target.total("queue_monitor")
        charts_["readers"] = {"queue readers": target.total("activated_tasks"), "of these waiting in RECEIVE": inside}
        if latencies := target.values.get("end_to_end_ms"):
            charts_["end_to_end_ms"] = latencies
    sent = [_rate(before, name, sample, "Broker Statistics\\SQL SENDs/sec") for name, sample in initiators.items()]
    known_rates = [rate for rate in sent if rate is not None]
    if known_rates:
        charts_["rate"] = {"sent": sum(known_rates)}
        charts_ |= _waits("initiator_waits", before, initiators)
    if target is not None and (first := before.get(TARGET)) is not None:
        charts_ |= _waits("target_waits", before, {TARGET: target})
        enqueued = _rate(before, TARGET, target, "Broker Statistics\\Enqueued Messages/sec") or 0.0
        grown = (target.total("queue_depth") - first.total("queue_depth")) / _seconds(first, target)
        processed = max(0.0, enqueued - grown)
        charts_.setdefault("rate", {})["processed"] = processed
        started = _rate(before, TARGET, target, "Broker Activation\\Tasks Started/sec") or 0.0
        charts_["activations"] = {"queue readers started": started}
        if processed and known_rates:
            waiting = (_waiting(first, before) + _waiting(target, now)) / 2
            charts_["wait_ms"] = {"mean wait of a message": 1000 * waiting / max(processed, sum(known_rates))}
    return charts_


def monitors(now: Reads) -> dict[str, str]:
    """Return the states of the queue monitors: `target dbo.Queue` -> `RECEIVES_OCCURRING`."""
    states = (
        (name, *label.rpartition("\\")[::2]) for name, sample in now.items() for label in sample.values["queue_monitor"]
    )
    return {f"{name} {queue}": state for name, queue, state in states}


def latches(watched: Iterable[Watched]) -> Chart:
    """Return how many tasks waited for a page of each object, on average of all samples of these instances."""
    waits_by_object: Counter[str] = Counter()
    samples = 0
    for watch in watched:
        samples += len(watch.sampled_at_ns)
        waits_by_object.update(watch.object_of(wait).name or NO_OBJECT for wait in watch.waits)
    return {name: waits / samples for name, waits in waits_by_object.items()}


def _sum(reads: Iterable[Read], metric: str) -> float:
    return sum(sample.total(metric) for sample in reads)


def _waiting(target: Read, reads: Reads) -> float:
    """Return how many messages have been sent and not yet received."""
    initiators = (sample for name, sample in reads.items() if name != TARGET)
    return target.total("queue_depth") + _sum(initiators, "transmission_queue_depth")


def _seconds(first: Read, last: Read) -> float:
    return max(last.at_ns - first.at_ns, 1) / 1e9


def _rate(before: Reads, name: str, last: Read, counter: str) -> float | None:
    """Return how fast a running total rose; None without a look before, zero if the instance was restarted."""
    first = before.get(name)
    return None if first is None else max(0.0, last.counter(counter) - first.counter(counter)) / _seconds(first, last)


def _waits(chart: str, before: Reads, now: Reads) -> dict[str, Chart]:
    """Return the chart of the wait types for which these instances waited longest, in ms per second.

    There is none where waits are not sampled.
    """
    waited: dict[str, float] = defaultdict(float)
    pairs = [(before[name], last) for name, last in now.items() if name in before and last.values["wait_ms"]]
    for first, last in pairs:
        earlier = first.values["wait_ms"]
        for wait_type, total in last.values["wait_ms"].items():
            if total > earlier.get(wait_type, 0.0):
                waited[wait_type] += (total - earlier.get(wait_type, 0.0)) / _seconds(first, last)
    return {chart: longest(waited)} if pairs else {}


def longest(waited: Mapping[str, float]) -> Chart:
    """Return the wait types that waited longest."""
    return dict(sorted(waited.items(), key=lambda item: -item[1])[:WAIT_TYPES_MAX])


class Looks:
    """Looks at the instances of a lab from one thread."""

    def __init__(self, instances: Sequence[Instance], *, has_page_latches: bool, stores_messages: bool) -> None:
        of_target = (WAITS, END_TO_END) if stores_messages else (WAITS,)
        self._observers = [
            Observer(instance, also=of_target if instance.name == TARGET else (WAITS,)) for instance in instances
        ]
        self._watches = [LatchWatch(instance) for instance in instances] if has_page_latches else []
        self._watched: list[Future[Watched]] = []
        self._before: Reads = {}
        for watch in self._watches:
            watch.prepare()
            watch.begin()

    def take(self) -> Look:
        """Look at all instances now; an instance that does not answer is a failure of the look."""
        at_s = time.time()
        if not self._watched:
            self._watched = [watch.end() for watch in self._watches]
        samples = {observer.instance.name: observer.sample() for observer in self._observers}
        wait(samples.values(), timeout=ANSWER_WITHIN_S)
        now, failures = read({name: answer.result() for name, answer in samples.items() if answer.done()})
        failures += [
            f"{name}: no answer within {ANSWER_WITHIN_S} s" for name, answer in samples.items() if not answer.done()
        ]
        look = Look(at_s, charts(self._before, now), monitors(now), failures)
        self._before = now
        if not wait(self._watched, timeout=LATCHES_WITHIN_S).not_done:
            self._add_latches(look)
        return look

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        for observer in self._observers:
            observer.close()

    def _add_latches(self, look: Look) -> None:
        """Add what the watches have seen, and let them watch on."""
        watched = {
            watch.instance.name: future.result() for watch, future in zip(self._watches, self._watched, strict=True)
        }
        self._watched = []
        look.failures += [
            f"latches of {name}: {why}" for name, each in watched.items() if (why := each.refusal or each.failure)
        ]
        sampled = {name: each for name, each in watched.items() if each.sampled_at_ns}
        for chart, is_target in (("target_latches", True), ("initiator_latches", False)):
            if side := [each for name, each in sampled.items() if (name == TARGET) is is_target]:
                look.charts[chart] = latches(side)
        for watch in self._watches:
            watch.prepare()
            watch.begin()
