"""What the model's hardware can do: parameters with units, bounds and where each value comes from.

A hardware file is TOML, one table a section, one line a parameter:

    [log]
    flush_latency_us = { value = 4500, low = 500, high = 12000, free = true, source = "..." }

`low` and `high` bound what the hardware makes plausible; `free` marks the few that calibration may fit, the others are
given. `paper` and `this-machine` come with the package. What stands here are inputs of a model, never measurements of
SQL Server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, create_model

from harness import toml_file
from harness.embedded.runtime.platform import Work
from harness.failures import UsageFailure, nearest
from harness.toml_file import Key, TomlFile, in_words

_SUFFIX = ".toml"


class HardwareError(UsageFailure):
    """Unknown hardware, or values that it cannot have."""


class Declared(BaseModel):
    """One parameter as its file declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    value: float
    low: Annotated[float, Field(ge=0)]
    high: float
    source: Annotated[str, Field(min_length=1)]  # Appendix A, documentation, textbook, calibrated
    free: bool = False


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClientParameters(_Frozen):
    """A thread of a test client: a closed loop of calls."""

    round_trip_us: float  # network, driver and protocol on both sides, beside the procedure itself
    think_time_us: float
    call_us: float  # processor time of a call in the client; 0: its computer is never short of any


class ProcessorParameters(_Frozen):
    """Cores of a database server, and the processor time of what the broker does with them (`platform.Work`)."""

    count: PositiveInt
    are_shared: bool  # by all instances and clients, which run on one machine
    begin_dialog_us: float
    send_us: float
    send_us_per_kib: float
    transmit_us: float
    transmit_us_per_kib: float
    acknowledge_us: float
    enqueue_us: float
    enqueue_us_per_kib: float
    create_target_us: float
    receive_us: float
    received_message_us: float
    received_message_us_per_kib: float
    end_conversation_us: float
    launch_us: float

    def price_us(self, work: Work) -> float:
        """For each time."""
        price: float = getattr(self, f"{work}_us")
        return price

    def price_us_per_kib(self, work: Work) -> float:
        """For each KiB of the messages that it moves; 0 where size does not matter."""
        price: float = getattr(self, f"{work}_us_per_kib", 0.0)
        return price


class LatchParameters(_Frozen):
    """The latch of a page of sys.sysdesend."""

    hold_us: float  # exclusive, for the change of a row
    shared_hold_us: float  # for looking the row up; 0: nobody looks it up
    hand_over_us: float  # from a release to the next owner's being able to go on, when somebody waited
    hand_over_us_per_waiter: float  # on top, for each that goes on waiting


class LogParameters(_Frozen):
    """The device that a transaction log is on."""

    flush_latency_us: PositiveFloat  # of one write, whatever its size
    flush_latency_spread: Annotated[float, Field(le=1)]  # a write's is uniform within this part of it below and above
    bytes_per_s: PositiveInt
    bytes_per_flush: PositiveInt  # the longest write
    flushes_in_flight: PositiveInt  # requests of the log writer that are under way together; commits gather meanwhile
    writes_in_flight: PositiveInt  # of all of them
    record_overhead_bytes: int  # of each row's record, beside its values


class NetworkParameters(_Frozen):
    """Switched, full-duplex Ethernet: one port a computer."""

    latency_us: float  # one way
    bits_per_s: PositiveInt  # of each port, each way
    frame_overhead_bytes: int  # of each frame of the dialog protocol, beside a message's body


class BrokerParameters(_Frozen):
    """Degrees of parallelism inside an instance."""

    dispatchers: PositiveInt  # tasks that transmit, and tasks that take what arrives


SECTIONS: Mapping[str, type[_Frozen]] = {
    "client": ClientParameters,
    "processors": ProcessorParameters,
    "latch": LatchParameters,
    "log": LogParameters,
    "network": NetworkParameters,
    "broker": BrokerParameters,
}


def _declared(name: str, fields: Mapping[str, Any]) -> type[_Frozen]:
    model: type[_Frozen] = create_model(name, __base__=_Frozen, **fields)
    return model


# The file: every section with every parameter.
_DOCUMENT = _declared(
    "Hardware",
    {
        section: (_declared(section, dict.fromkeys(model.model_fields, (Declared, ...))), ...)
        for section, model in SECTIONS.items()
    },
)


class Parameters(_Frozen):
    """One hardware: `name`, typed values by section, and `declared`, each parameter's bounds and source by its name."""

    name: str
    client: ClientParameters
    processors: ProcessorParameters
    latch: LatchParameters
    log: LogParameters
    network: NetworkParameters
    broker: BrokerParameters
    declared: Mapping[str, Declared] = Field(repr=False)

    @property
    def free(self) -> list[str]:
        """Names of those that calibration may fit, in the file's order."""
        return [name for name, one in self.declared.items() if one.free]

    def value(self, name: str) -> float:
        """By the parameter's name alone, such as `send_us`: no two sections share a name."""
        return self._known(name).value

    def nearest(self, name: str, value: float) -> float:
        """What the parameter can be that is nearest: within its bounds, and whole where it counts something."""
        declared = self._known(name)
        [model] = [model for model in SECTIONS.values() if name in model.model_fields]
        if model.model_fields[name].annotation is int:
            value = float(round(value))
        return min(max(value, declared.low), declared.high)

    def with_values(self, values: Mapping[str, float]) -> Parameters:
        """The same hardware but for these; HardwareError outside a parameter's bounds."""
        changed = {name: self._known(name).model_copy(update={"value": value}) for name, value in values.items()}

        def error(key: Key, message: str) -> HardwareError:
            return HardwareError(f"hardware {self.name}: {toml_file.name(key)}: {message}")

        return _checked(self.name, {**self.declared, **changed}, error)

    def as_rows(self) -> list[dict[str, Any]]:
        """One row a parameter: for the manifest of a run."""
        return [
            {"section": section, "parameter": name, **self.declared[name].model_dump()}
            for section, model in SECTIONS.items()
            for name in model.model_fields
        ]

    def _known(self, name: str) -> Declared:
        declared = self.declared.get(name)
        if declared is None:
            raise HardwareError(f"hardware {self.name}: no parameter {name!r}{nearest(name, list(self.declared))}")
        return declared


def names() -> list[str]:
    """The hardware that comes with the package."""
    folder = files(__package__) / "hardware"
    return sorted(one.name.removesuffix(_SUFFIX) for one in folder.iterdir() if one.name.endswith(_SUFFIX))


def read(name_or_path: str) -> Parameters:
    """Hardware by the name it has in the package, or by the path of a file of one's own."""
    if name_or_path in names():
        return _read_packaged(name_or_path)
    path = Path(name_or_path)
    if path.suffix != _SUFFIX and not path.is_file():
        raise HardwareError(f"unknown hardware {name_or_path!r}{nearest(name_or_path, names())}, or the path of a file")
    return parse(toml_file.read(path, "hardware file"))


@cache
def _read_packaged(name: str) -> Parameters:
    return parse(TomlFile(text_of(name), Path(name + _SUFFIX)))


def parse(toml: TomlFile) -> Parameters:
    """The hardware of a file; its name is the file's without the suffix."""
    document = toml.validate(_DOCUMENT)
    declared: dict[str, Declared] = {
        key: getattr(getattr(document, section), key)
        for section, model in SECTIONS.items()
        for key in model.model_fields
    }
    return _checked(toml.path.stem, declared, toml.error)


def _checked(name: str, declared: Mapping[str, Declared], error: Callable[[Key, str], UsageFailure]) -> Parameters:
    """The parameters, once each is within its bounds, has its section's type and, where it is free, can be fitted by
    its logarithm."""
    sections: dict[str, _Frozen] = {}
    for section, model in SECTIONS.items():
        for key in model.model_fields:
            one = declared[key]
            if not one.low <= one.value <= one.high:
                raise error((section, key), f"{one.value:g} is out of bounds ({one.low:g} to {one.high:g})")
            if one.free and not 0 < one.low < one.high:
                raise error(
                    (section, key), f"free, but {one.low:g} to {one.high:g} leaves calibration no room: 0 < low < high"
                )
        try:
            sections[section] = model.model_validate({key: declared[key].value for key in model.model_fields})
        except ValidationError as invalid:
            first = invalid.errors()[0]
            raise error((section, str(first["loc"][0])), in_words(first)) from None
    return Parameters.model_validate({"name": name, "declared": dict(declared), **sections})


WORKS: tuple[Work, ...] = get_args(Work)


def text_of(name_or_path: str) -> str:
    """The hardware file itself."""
    if name_or_path in names():
        return (files(__package__) / "hardware" / f"{name_or_path}{_SUFFIX}").read_text(encoding="utf-8")
    return Path(name_or_path).read_text(encoding="utf-8")


def with_values_in(text: str, values: Mapping[str, float]) -> str:
    """A hardware file's text with other values, everything else as it is; HardwareError where a value's place cannot
    be told."""
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^(\s*{name}\s*=\s*{{\s*value\s*=\s*)[^,\s]+", rf"\g<1>{value:g}", text)
        if count != 1:
            raise HardwareError(f"a fitted value has no place to be written: no line begins `{name} = {{ value = ...`")
    return text
