"""The parameters of the model's hardware, with units, bounds and the source of each value.

A hardware file is TOML with a table for each section and a line for each parameter:

    [log]
    flush_latency_us = { value = 4500, low = 500, high = 12000, free = true, source = "..." }

`low` and `high` are the bounds of what is plausible for the hardware; `free` marks the few parameters that calibration
may fit. The files in `hardware` come with the package. All values are inputs of a model, never measurements of SQL
Server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, create_model

from harness.embedded.runtime.platform import Work
from harness.failures import UsageFailure, nearest
from harness.files import toml_file
from harness.files.toml_file import Key, in_words

FOLDER = Path(__file__).with_name("hardware")
WORKS: tuple[Work, ...] = get_args(Work)


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
    call_us: float  # processor time of a call in the client
    processors: int  # of each initiator's client computer; 0: it always has enough


class ProcessorParameters(_Frozen):
    """Cores of a database server, and the processor time of each kind of the broker's work (`platform.Work`).

    `..._us` is charged for each execution, `..._us_per_kib` for each KiB that it moves.
    """

    count: PositiveInt
    are_shared: bool  # all instances and clients run on one machine
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


class LatchParameters(_Frozen):
    """The latch of a page of sys.sysdesend."""

    hold_us: float  # exclusive, for the change of a row
    shared_hold_us: float  # for looking the row up; 0: look-ups take no latch
    hand_over_us: float  # from a release until the next owner, which waited, can continue
    hand_over_us_per_waiter: float  # added for each task that continues to wait


class LogParameters(_Frozen):
    """The device of a transaction log."""

    flush_latency_us: PositiveFloat  # of one write, whatever its size
    flush_latency_spread: Annotated[float, Field(le=1)]  # uniform within this share below and above
    bytes_per_s: PositiveInt
    bytes_per_flush: PositiveInt  # the longest write
    flushes_in_flight: PositiveInt  # at a time; commits gather meanwhile
    writes_in_flight: PositiveInt  # of all flushes together
    record_overhead_bytes: int  # of each row's record, added to its values


class NetworkParameters(_Frozen):
    """Switched, full-duplex Ethernet with one port for each computer."""

    latency_us: float  # one way
    bits_per_s: PositiveInt  # of each port, in each direction
    frame_overhead_bytes: int  # of each frame of the dialog protocol, added to a message's body


class BrokerParameters(_Frozen):
    """Degrees of parallelism inside an instance."""

    dispatchers: PositiveInt  # tasks that transmit, and as many that process arrivals


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
    """A hardware: its name, typed values by section, and the declaration of each parameter by name."""

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
        """Names of the parameters that calibration may fit, in the file's order."""
        return [name for name, parameter in self.declared.items() if parameter.free]

    def value(self, name: str) -> float:
        """Return a parameter's value by its name, such as `send_us`; no two sections share a name."""
        return self._known(name).value

    def nearest(self, name: str, value: float) -> float:
        """Return the nearest value that the parameter can have: within its bounds, and whole if it is a count."""
        declared = self._known(name)
        [model] = [model for model in SECTIONS.values() if name in model.model_fields]
        if model.model_fields[name].annotation is int:
            value = float(round(value))
        return min(max(value, declared.low), declared.high)

    def with_values(self, values: Mapping[str, float]) -> Parameters:
        """Copy this hardware with other values; raise HardwareError outside a parameter's bounds."""
        changed = {name: self._known(name).model_copy(update={"value": value}) for name, value in values.items()}

        def error(key: Key, message: str) -> HardwareError:
            return HardwareError(f"hardware {self.name}: {toml_file.name(key)}: {message}")

        return _checked(self.name, {**self.declared, **changed}, error)

    def as_manifest(self) -> dict[str, dict[str, Any]]:
        """All declarations by section and name, for the manifest of a run."""
        return {
            f"{section}.{name}": self.declared[name].model_dump()
            for section, model in SECTIONS.items()
            for name in model.model_fields
        }

    def _known(self, name: str) -> Declared:
        declared = self.declared.get(name)
        if declared is None:
            raise HardwareError(f"hardware {self.name}: no parameter {name!r}{nearest(name, list(self.declared))}")
        return declared


def names() -> list[str]:
    """Names of the hardware files that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def path_of(name_or_path: str) -> Path:
    """Return the path of a hardware file, by its name in the package or by that path."""
    return FOLDER / f"{name_or_path}.toml" if name_or_path in names() else Path(name_or_path)


def read(name_or_path: str) -> Parameters:
    """Read hardware by its name in the package or by the path of a file; its name is the file's without the suffix."""
    path = path_of(name_or_path)
    if path.suffix != ".toml" and not path.is_file():
        raise HardwareError(f"unknown hardware {name_or_path!r}{nearest(name_or_path, names())}, or the path of a file")
    toml = toml_file.read(path, "hardware file")
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
            parameter = declared[key]
            if not parameter.low <= parameter.value <= parameter.high:
                raise error(
                    (section, key), f"{parameter.value:g} is out of bounds ({parameter.low:g} to {parameter.high:g})"
                )
            if parameter.free and not 0 < parameter.low < parameter.high:
                raise error(
                    (section, key),
                    f"free, but {parameter.low:g} to {parameter.high:g} leaves calibration no room: 0 < low < high",
                )
        try:
            sections[section] = model.model_validate({key: declared[key].value for key in model.model_fields})
        except ValidationError as invalid:
            first = invalid.errors()[0]
            raise error((section, str(first["loc"][0])), in_words(first)) from None
    return Parameters.model_validate({"name": name, "declared": dict(declared), **sections})


def with_values_in(text: str, values: Mapping[str, float]) -> str:
    """Return a hardware file's text with other values; raise HardwareError if a value is not found in it."""
    for name, value in values.items():
        text, count = re.subn(rf"(?m)^(\s*{name}\s*=\s*{{\s*value\s*=\s*)[^,\s]+", rf"\g<1>{value:g}", text)
        if count != 1:
            raise HardwareError(f"cannot write {name} to the file: begin its line with `{name} = {{ value = ...`")
    return text
