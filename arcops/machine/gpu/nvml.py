"""NVIDIA's management library, by way of nvidia-ml-py: one short visit at a time, and no node held open after it.

Source: NVML API Reference. A visit costs some 10 ms, nearly all of it `nvmlInit`. A forked child has to make a visit of
its own: NVML is not initialised there.
"""

import errno
import importlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, cast

MISSING = "nvidia-ml-py is not installed (pip install 'arcops[nvidia]')"

RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset."""

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 3, 4, 6, 9, 12
GPU_IS_LOST, RESET_REQUIRED = 15, 16
"""NVML_ERROR_*, those that mean something to arcops."""

T = TypeVar("T")

Handle: TypeAlias = object
"""What NVML gives for a device; good for one visit."""


class _Process(Protocol):
    pid: int
    usedGpuMemory: int | None  # noqa: N815 - NVML's name


class _Memory(Protocol):
    total: int
    reserved: int
    free: int
    used: int


class _Value(Protocol):
    @property
    def uiVal(self) -> int: ...  # noqa: N802 - NVML's name


class _Utilisation(Protocol):
    """Per cent of the time since the last sample."""

    @property
    def gpu(self) -> int: ...
    @property
    def memory(self) -> int: ...


class _Field(Protocol):
    @property
    def nvmlReturn(self) -> int: ...  # noqa: N802 - NVML's name
    @property
    def value(self) -> _Value: ...


class Library(Protocol):
    """The part of the module `pynvml` that tells who holds a card's memory, and whether it is well."""

    NVMLError: type[Exception]
    nvmlMemory_v2: int  # noqa: N815 - NVML's name

    def nvmlInit(self) -> None: ...  # noqa: N802 - NVML's name, and those below
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetHandleByPciBusId(self, address: bytes) -> Handle: ...  # noqa: N802
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Handle) -> Sequence[_Process]: ...  # noqa: N802
    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Handle) -> Sequence[_Process]: ...  # noqa: N802
    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Handle) -> Sequence[_Process]: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: Handle, version: int) -> _Memory: ...  # noqa: N802
    def nvmlDeviceGetMinorNumber(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetFieldValues(self, handle: Handle, fields: Sequence[int]) -> Sequence[_Field]: ...  # noqa: N802


class Gauges(Library, Protocol):
    """The part of it that a card's measures are read with."""

    def nvmlSystemGetDriverVersion(self) -> str: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: Handle) -> str: ...  # noqa: N802
    def nvmlDeviceGetVbiosVersion(self, handle: Handle) -> str: ...  # noqa: N802
    def nvmlDeviceGetGspFirmwareVersion(self, handle: Handle) -> bytes | str: ...  # noqa: N802
    def nvmlDeviceGetPerformanceState(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetMigMode(self, handle: Handle) -> Sequence[int]: ...  # noqa: N802
    def nvmlDeviceGetRemappedRows(self, handle: Handle) -> Sequence[int]: ...  # noqa: N802
    def nvmlDeviceGetClockInfo(self, handle: Handle, clock: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetMaxClockInfo(self, handle: Handle, clock: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetUtilizationRates(self, handle: Handle) -> _Utilisation: ...  # noqa: N802
    def nvmlDeviceGetPowerUsage(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetTemperature(self, handle: Handle, sensor: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetNumFans(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetFanSpeedRPM(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Handle) -> int: ...  # noqa: N802
    def nvmlDeviceGetTotalEccErrors(self, handle: Handle, kind: int, since: int) -> int: ...  # noqa: N802
    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Handle) -> int: ...  # noqa: N802


class NvmlError(OSError):
    """NVML said no: `code` is its own (NVML_ERROR_*), None where there is no NVML to ask."""

    def __init__(self, code: int | None, words: str) -> None:
        super().__init__(errno.EIO, words)
        self.code, self.words = code, words


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that has a context on a card. The pid is the driver's word: the process may have ended."""

    pid: int
    used_bytes: int | None
    """None where the driver does not say (it does not in some virtual machines)."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a card. `used` is what processes hold, `reserved` what the driver keeps for itself."""

    total: int
    reserved: int
    used: int


class Card:
    """One card during a visit. Whatever cannot be read raises NvmlError."""

    def __init__(self, library: Library, handle: Handle) -> None:
        self._library, self._handle = library, handle

    def processes(self) -> tuple[GpuProcess, ...]:
        """Every process with a context there, once: NVML keeps three lists, and a process may be in several."""
        lists = (
            self._library.nvmlDeviceGetComputeRunningProcesses,
            self._library.nvmlDeviceGetGraphicsRunningProcesses,
            self._library.nvmlDeviceGetMPSComputeRunningProcesses,
        )
        found: dict[int, GpuProcess] = {}
        for of in lists:
            for one in self._optional(lambda of=of: of(self._handle)) or ():
                earlier = found.get(one.pid)
                sizes = [size for size in (one.usedGpuMemory, earlier and earlier.used_bytes) if size is not None]
                found[one.pid] = GpuProcess(one.pid, max(sizes, default=None))
        return tuple(found[pid] for pid in sorted(found))

    def ask(self, question: Callable[[Gauges, Handle], T]) -> T:
        """One question of NVML's, of this card. AttributeError where this release of nvidia-ml-py does not know it."""
        with _as_errors(self._library):
            return question(cast("Gauges", self._library), self._handle)

    def memory(self) -> Memory:
        with _as_errors(self._library):
            said = self._library.nvmlDeviceGetMemoryInfo(self._handle, version=self._library.nvmlMemory_v2)
        return Memory(said.total, said.reserved, said.used)

    def minor(self) -> int:
        """The N of /dev/nvidiaN."""
        with _as_errors(self._library):
            return self._library.nvmlDeviceGetMinorNumber(self._handle)

    def field(self, number: int) -> int:
        """A field value (NVML_FI_*), of those that are 32 bits wide."""

        def value(library: Gauges, handle: Handle) -> int:
            one = library.nvmlDeviceGetFieldValues(handle, [number])[0]
            if one.nvmlReturn != 0:
                raise library.NVMLError(one.nvmlReturn)
            return one.value.uiVal

        return self.ask(value)

    def recovery_action(self) -> int | None:
        """What the driver wants done with the card (see RECOVERY_ACTION); None where it does not know the question."""
        fields = self._optional(lambda: self._library.nvmlDeviceGetFieldValues(self._handle, [RECOVERY_ACTION]))
        if not fields or fields[0].nvmlReturn != 0:
            return None
        return fields[0].value.uiVal

    def _optional(self, call: Callable[[], Sequence[T]]) -> Sequence[T] | None:
        """None for what this card or driver does not have."""
        try:
            with _as_errors(self._library):
                return call()
        except NvmlError as error:
            if error.code != NOT_SUPPORTED:
                raise
            return None


def load() -> Library:
    """The module `pynvml`, from the optional extra `nvidia`. Raises NvmlError where it is not installed."""
    try:
        return cast("Library", importlib.import_module("pynvml"))
    except ImportError as error:
        raise NvmlError(None, MISSING) from error


@contextmanager
def visit(address: str, library: Library | None = None) -> Generator[Card]:
    """The card at a PCI address (`0000:03:00.0`), for as long as the block lasts. Raises NvmlError."""
    library = library or load()
    with _as_errors(library):
        library.nvmlInit()
    try:
        with _as_errors(library):
            handle = library.nvmlDeviceGetHandleByPciBusId(address.encode())
        yield Card(library, handle)
    finally:
        with _as_errors(library):
            library.nvmlShutdown()


@contextmanager
def _as_errors(library: Library) -> Generator[None]:
    try:
        yield
    except library.NVMLError as error:
        code: object = getattr(error, "value", None)
        raise NvmlError(code if isinstance(code, int) else None, f"NVML: {error}") from error
