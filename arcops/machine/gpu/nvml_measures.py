"""The measures of an NVIDIA card, of one visit to NVML. What a card does not have is an absence with NVML's own word.

Source: NVML API Reference; what an H200 answers is in tests/data/nvidia. NVML counts no Xids: those the kernel log has.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from arcops.core.cards.measures import HAS_NONE, CardReading, Detail, Measure, Quantity
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu.nvml import Card, Gauges, Handle, Memory, NvmlError

SOURCE = "NVML"

SM, MEMORY = 1, 2
"""NVML_CLOCK_SM, NVML_CLOCK_MEM."""
GPU_SENSOR = 0
"""NVML_TEMPERATURE_GPU."""
UNCORRECTED, SINCE_LOAD = 1, 0
"""NVML_MEMORY_ERROR_TYPE_UNCORRECTED; NVML_VOLATILE_ECC, counted since the driver was loaded."""
MEMORY_TEMPERATURE = 82
"""NVML_FI_DEV_MEMORY_TEMP, degrees."""

TRANSFERS: Mapping[int, float] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}
"""GT/s of a lane by generation. Source: PCI Express Base Specification."""

IDLE = 0x1
REASONS: Mapping[int, str] = {
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake slowdown",
    0x100: "display clock setting",
}
"""nvmlClocksEventReason*, all but the one (IDLE) that says that there is nothing to do."""

RECOVERY: Mapping[int, str] = {
    0: "none",
    1: "reset of the card",
    2: "reboot",
    3: "drain",
    4: "drain and reset",
    5: "recovery of the IMEX domain",
}
"""What the driver wants done with the card, by NVML_GPU_RECOVERY_ACTION_*."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that NVML tells, and between what it can lie: outside of that it was not read."""

    quantity: Quantity
    part: str
    ask: Callable[[Card], float]
    """In the quantity's unit."""
    least: float
    most: float

    def read(self, card: Card) -> float:
        value = float(self.ask(card))
        if not self.least <= value <= self.most:
            raise ValueError(f"NVML says {self.quantity.label} is {value:g}, which cannot be")
        return value


def reading(address: str, at: float, card: Card | NvmlError) -> CardReading:
    """Every measure of a card as of `at`; where the visit itself was refused (`card` is the error), each is absent."""
    memory = _ask(card, at, _memory)
    return CardReading(
        address=address,
        at=at,
        measures=(
            Measure(Quantity.MEMORY_TOTAL, _of(memory, lambda said: said.total), SOURCE),
            Measure(Quantity.MEMORY_USED, _of(memory, lambda said: said.used), SOURCE),
            Measure(Quantity.MEMORY_RESERVED, _of(memory, lambda said: said.reserved), SOURCE),
            *(Measure(one.quantity, _ask(card, at, one.read), SOURCE, one.part) for one in _NUMBERS),
        ),
        throttling=_ask(card, at, lambda one: reasons(one.ask(_event_reasons))),
        details=tuple(_details(card, at)),
    )


def reasons(bits: int) -> tuple[str, ...]:
    """The clocks event reasons in words. That an idle card runs slowly is no throttling."""
    known = tuple(words for bit, words in REASONS.items() if bits & bit)
    rest = bits & ~(IDLE | sum(REASONS))
    return (*known, f"reason {rest:#x}") if rest else known


def _ask(card: Card | NvmlError, at: float, question: Callable[[Card], T]) -> Reading[T]:
    """What the card answers, or why it does not. A ValueError is an answer that cannot be."""
    if isinstance(card, NvmlError):
        return Unknown(card.words, at)
    try:
        return Known(question(card), at)
    except NvmlError as error:
        return Unknown(error.words, at)
    except AttributeError:
        return Unknown("not in this release of nvidia-ml-py", at)
    except ValueError as error:
        return Unknown(str(error), at)


def _of(memory: Reading[Memory], size: Callable[[Memory], int]) -> Reading[float]:
    return memory if isinstance(memory, Unknown) else Known(float(size(memory.value)), memory.at)


def _memory(card: Card) -> Memory:
    said = card.memory()
    if said.total <= 0 or not 0 <= said.used <= said.total or not 0 <= said.reserved <= said.total:
        raise ValueError(f"NVML says {said.used} of {said.total} bytes in use, {said.reserved} reserved: it cannot be")
    return said


def _fan(card: Card) -> float:
    if card.ask(lambda library, handle: library.nvmlDeviceGetNumFans(handle)) == 0:
        raise ValueError(f"{HAS_NONE} fan of its own")
    return card.ask(lambda library, handle: library.nvmlDeviceGetFanSpeedRPM(handle))


def _link_speed(card: Card) -> float:
    generation = card.ask(lambda library, handle: library.nvmlDeviceGetCurrPcieLinkGeneration(handle))
    if generation not in TRANSFERS:
        raise ValueError(f"NVML says PCIe generation {generation}")
    return TRANSFERS[generation]


def _event_reasons(library: Gauges, handle: Handle) -> int:
    return library.nvmlDeviceGetCurrentClocksEventReasons(handle)


def _number(question: Callable[[Gauges, Handle], float], scale: float = 1.0) -> Callable[[Card], float]:
    return lambda card: card.ask(question) * scale


_NUMBERS = (
    _Number(Quantity.CLOCK, "sm", _number(lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, SM)), 0, 20_000),
    _Number(Quantity.CLOCK, "memory", _number(lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, MEMORY)), 0, 50_000),
    _Number(Quantity.CLOCK_MAX, "sm", _number(lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, SM)), 1, 20_000),
    _Number(
        Quantity.CLOCK_MAX,
        "memory",
        _number(lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, MEMORY)),
        1,
        50_000,
    ),
    _Number(Quantity.BUSY, "", _number(lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).gpu, 0.01), 0, 1),
    _Number(
        Quantity.BUSY, "memory", _number(lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).memory, 0.01), 0, 1
    ),
    _Number(Quantity.POWER, "", _number(lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card), 1e-3), 0, 20_000),
    _Number(
        Quantity.ENERGY,
        "",
        _number(lambda nvml, card: nvml.nvmlDeviceGetTotalEnergyConsumption(card), 1e-3),
        0,
        float(2**64),
    ),
    _Number(
        Quantity.POWER_LIMIT,
        "",
        _number(lambda nvml, card: nvml.nvmlDeviceGetEnforcedPowerLimit(card), 1e-3),
        1,
        20_000,
    ),
    _Number(
        Quantity.TEMPERATURE, "gpu", _number(lambda nvml, card: nvml.nvmlDeviceGetTemperature(card, GPU_SENSOR)), 0, 200
    ),
    # Cards without that sensor may say 0 instead of refusing.
    _Number(Quantity.TEMPERATURE, "memory", lambda card: card.field(MEMORY_TEMPERATURE), 1, 200),
    _Number(Quantity.FAN, "fan1", _fan, 0, 100_000),
    _Number(Quantity.LINK_WIDTH, "", _number(lambda nvml, card: nvml.nvmlDeviceGetCurrPcieLinkWidth(card)), 1, 32),
    _Number(Quantity.LINK_SPEED, "", _link_speed, 0, 1_000),
    _Number(
        Quantity.MEMORY_ERRORS,
        "",
        _number(lambda nvml, card: nvml.nvmlDeviceGetTotalEccErrors(card, UNCORRECTED, SINCE_LOAD)),
        0,
        float(2**63),
    ),
)
"""NVML's milliwatts, millijoules and per cent are made watts, joules and shares; clocks are megahertz there, too."""


def _details(card: Card | NvmlError, at: float) -> Iterator[Detail]:
    texts: Mapping[str, Callable[[Gauges, Handle], str | bytes]] = {
        "name": lambda nvml, handle: nvml.nvmlDeviceGetName(handle),
        "driver": lambda nvml, _: nvml.nvmlSystemGetDriverVersion(),
        "vbios": lambda nvml, handle: nvml.nvmlDeviceGetVbiosVersion(handle),
        "firmware": lambda nvml, handle: nvml.nvmlDeviceGetGspFirmwareVersion(handle),
        "performance_state": lambda nvml, handle: f"P{nvml.nvmlDeviceGetPerformanceState(handle)}",
        "mig": lambda nvml, handle: _mig(nvml.nvmlDeviceGetMigMode(handle)[0]),
        "remapped_rows": lambda nvml, handle: _rows(*nvml.nvmlDeviceGetRemappedRows(handle)),
    }
    for name, question in texts.items():
        yield Detail(name, _ask(card, at, lambda one, of=question: _text(one.ask(of))), SOURCE)
    yield Detail("recovery_action", _ask(card, at, lambda one: _recovery(one.recovery_action())), SOURCE)


def _text(said: str | bytes) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said


def _mig(mode: int) -> str:
    return {0: "disabled", 1: "enabled"}.get(mode, f"mode {mode}")


def _rows(corrected: int, uncorrected: int, pending: int, failed: int) -> str:
    """Rows of the memory that were replaced by spare ones; what is pending takes a reset of the card."""
    waits = ", more after the next reset" if pending else ""
    no_spare = ", and one could not be" if failed else ""
    return f"{corrected + uncorrected} ({uncorrected} after uncorrected errors){waits}{no_spare}"


def _recovery(action: int | None) -> str:
    if action is None:
        raise ValueError("this driver does not know the question")
    return RECOVERY.get(action, f"action {action}")
