"""An NVIDIA card's measures, from what an H200's NVML answered, and from answers that cannot be."""

import math
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcops.core.cards.measures import CardReading, Quantity
from arcops.core.quantity import Known, Reading, Unknown
from arcops.machine.gpu import CardIdentity, nvml, nvml_measures
from arcops.machine.gpu.nvidia import NvidiaReader
from tests.fakes.nvml import Played, recorded

T = TypeVar("T")

ADDRESS = "0000:00:06.0"
H200 = CardIdentity(ADDRESS, 0x10DE, 0x2335, "nvidia", None, None)
MIB = 1024 * 1024


def read(played: Played) -> CardReading:
    found = NvidiaReader(played.library).read(H200, 7.0)
    assert (found.address, found.at) == (ADDRESS, 7.0)
    return found


def values(reading: CardReading) -> dict[str, float | str]:
    """By quantity and part: the value, or the reason why there is none."""
    return {
        f"{one.quantity.label} {one.part}".strip(): one.reading.value
        if isinstance(one.reading, Known)
        else one.reading.reason
        for one in reading.measures
    }


def said(reading: Reading[T]) -> T | str:
    return reading.value if isinstance(reading, Known) else f"absent: {reading.reason}"


@pytest.fixture(scope="module")
def idle() -> CardReading:
    return read(Played(recorded("idle")))


@pytest.fixture(scope="module")
def loaded() -> CardReading:
    return read(Played(recorded("loaded")))


def test_a_loaded_cards_measures_are_in_the_units_of_their_quantities(loaded: CardReading) -> None:
    assert values(loaded) == {
        "memory_total": 150_754_820_096,
        "memory_used": 2_999_779_328,
        "memory_reserved": 644_939_776,
        "clock sm": 1500,
        "clock memory": 3201,
        "clock_max sm": 1980,
        "clock_max memory": 3201,
        "busy": 1.0,
        "busy memory": pytest.approx(0.15),
        "power": pytest.approx(692.259),
        "energy": pytest.approx(4791.522),
        "power_limit": 700,
        "temperature gpu": 55,
        "temperature memory": 44,
        "fan fan1": "this card has no fan of its own",
        "link_width": 16,
        "link_speed": 32.0,
        "memory_errors": 0,
    }


def test_an_idle_card_uses_nothing_of_its_memory_and_its_reserve_is_said_apart(idle: CardReading) -> None:
    assert idle.reading(Quantity.MEMORY_USED) == Known(0.0, 7.0)
    assert idle.reading(Quantity.MEMORY_RESERVED) == Known(644_939_776.0, 7.0)


def test_a_power_cap_is_throttling_and_idleness_is_none(idle: CardReading, loaded: CardReading) -> None:
    assert said(loaded.throttling) == ("software power cap",)
    assert said(idle.throttling) == ()


def test_the_words_of_a_card_are_its_details(loaded: CardReading) -> None:
    assert {one.name: said(one.reading) for one in loaded.details} == {
        "name": "NVIDIA H200",
        "driver": "580.159.04",
        "vbios": "96.00.A5.00.1A",
        "firmware": "580.159.04",
        "performance_state": "P0",
        "mig": "disabled",
        "remapped_rows": "0 (0 after uncorrected errors)",
        "recovery_action": "none",
    }


def test_every_value_and_absence_has_its_source_and_the_time_of_the_look(loaded: CardReading) -> None:
    assert {one.source for one in (*loaded.measures, *loaded.details)} == {"NVML"}
    assert {one.reading.at for one in (*loaded.measures, *loaded.details)} == {7.0}


def test_a_reading_is_one_visit_and_leaves_nothing_open() -> None:
    played = Played(recorded("idle"))
    read(played)
    assert (played.visits, played.open) == (1, 0)


@pytest.mark.parametrize(
    ("refused", "quantity", "part"),
    [
        ("nvmlDeviceGetMemoryInfo", Quantity.MEMORY_USED, ""),
        ("nvmlDeviceGetPowerUsage", Quantity.POWER, ""),
        ("nvmlDeviceGetTotalEccErrors", Quantity.MEMORY_ERRORS, ""),
        ("nvmlDeviceGetUtilizationRates", Quantity.BUSY, "memory"),
        ("nvmlDeviceGetFieldValues", Quantity.TEMPERATURE, "memory"),
        ("nvmlDeviceGetCurrPcieLinkGeneration", Quantity.LINK_SPEED, ""),
    ],
)
@pytest.mark.parametrize(
    ("code", "words"), [(nvml.NOT_SUPPORTED, "Not Supported"), (nvml.NO_PERMISSION, "Insufficient Permissions")]
)
def test_what_nvml_refuses_is_absent_with_its_word_and_the_rest_is_there(
    refused: str, quantity: Quantity, part: str, code: int, words: str
) -> None:
    reading = read(Played(recorded("loaded"), {refused: code}))
    assert reading.reading(quantity, part) == Unknown(f"NVML: {words}", 7.0)
    assert isinstance(reading.reading(Quantity.CLOCK, "sm"), Known)


def test_a_field_that_is_refused_by_itself_is_absent_with_nvmls_word() -> None:
    field = {"nvmlDeviceGetFieldValues(82)": [{"nvmlReturn": 3, "value": {"uiVal": 0}}]}
    reading = read(Played({**recorded("idle"), **field}))
    assert reading.reading(Quantity.TEMPERATURE, "memory") == Unknown("NVML: Not Supported", 7.0)


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetHandleByPciBusId"])
def test_a_card_that_cannot_be_visited_has_the_same_measures_all_of_them_absent(
    function: str, loaded: CardReading
) -> None:
    played = Played({}, {function: nvml.GPU_IS_LOST})
    reading = read(played)
    assert [(one.quantity, one.part) for one in reading.measures] == [
        (one.quantity, one.part) for one in loaded.measures
    ]
    assert {said(one.reading) for one in reading.measures} == {"absent: NVML: error 15"}
    assert {said(one.reading) for one in reading.details} == {"absent: NVML: error 15"}
    assert reading.throttling == Unknown("NVML: error 15", 7.0)
    assert played.open == 0


def test_without_the_library_every_measure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(nvml.importlib, "import_module", nothing)
    reading = NvidiaReader().read(H200, 7.0)
    assert {said(one.reading) for one in reading.measures} == {f"absent: {nvml.MISSING}"}


def test_a_question_that_this_release_of_the_library_does_not_have_is_an_absence() -> None:
    class Older(Played):
        def __getattr__(self, name: str) -> object:
            if name == "nvmlDeviceGetCurrentClocksEventReasons":
                raise AttributeError(name)
            return super().__getattr__(name)

    reading = read(Older(recorded("idle")))
    assert said(reading.throttling) == "absent: not in this release of nvidia-ml-py"


def test_a_fan_turns_where_there_is_one() -> None:
    fan = {"nvmlDeviceGetNumFans()": 2, "nvmlDeviceGetFanSpeedRPM()": 1800}
    assert read(Played({**recorded("idle"), **fan})).reading(Quantity.FAN, "fan1") == Known(1800.0, 7.0)


@pytest.mark.parametrize(
    ("answer", "quantity", "part", "reason"),
    [
        (
            ("nvmlDeviceGetPowerUsage()", 0xFFFFFFFF),
            Quantity.POWER,
            "",
            "NVML says power is 4.29497e+06, which cannot be",
        ),
        (("nvmlDeviceGetPowerUsage()", -1), Quantity.POWER, "", "NVML says power is -0.001, which cannot be"),
        (
            ("nvmlDeviceGetUtilizationRates()", {"gpu": 101, "memory": 3}),
            Quantity.BUSY,
            "",
            "NVML says busy is 1.01, which cannot be",
        ),
        (
            ("nvmlDeviceGetCurrPcieLinkWidth()", 0),
            Quantity.LINK_WIDTH,
            "",
            "NVML says link_width is 0, which cannot be",
        ),
        (("nvmlDeviceGetCurrPcieLinkGeneration()", 0), Quantity.LINK_SPEED, "", "NVML says PCIe generation 0"),
        (
            ("nvmlDeviceGetFieldValues(82)", [{"nvmlReturn": 0, "value": {"uiVal": 0}}]),
            Quantity.TEMPERATURE,
            "memory",
            "NVML says temperature is 0, which cannot be",
        ),
    ],
)
def test_an_answer_that_cannot_be_is_no_value(
    answer: tuple[str, object], quantity: Quantity, part: str, reason: str
) -> None:
    reading = read(Played({**recorded("idle"), answer[0]: answer[1]}))
    found = next(one.reading for one in reading.measures if one.quantity is quantity and one.part == part)
    assert found == Unknown(reason, 7.0)


@pytest.mark.parametrize(("total", "used", "reserved"), [(0, 0, 0), (10, 11, 0), (10, -1, 0), (10, 0, 11), (-10, 0, 0)])
def test_memory_that_does_not_add_up_is_unknown_and_not_free(total: int, used: int, reserved: int) -> None:
    memory = {"total": total, "used": used, "reserved": reserved, "free": 0}
    reading = read(Played({**recorded("idle"), "nvmlDeviceGetMemoryInfo(33554472)": memory}))
    for quantity in (Quantity.MEMORY_TOTAL, Quantity.MEMORY_USED, Quantity.MEMORY_RESERVED):
        assert isinstance(reading.reading(quantity), Unknown)


@given(number=st.integers(-(2**64), 2**65))
def test_no_number_of_nvmls_makes_a_measure_negative_or_without_end(number: int) -> None:
    answers = {
        name: number if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in recorded("loaded").items()
    }
    for one in read(Played({**answers, "nvmlDeviceGetFanSpeedRPM()": number})).measures:
        if isinstance(one.reading, Known):
            assert one.reading.value >= 0
            assert math.isfinite(one.reading.value)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, ()),
        (0x1, ()),
        (0x5, ("software power cap",)),
        (0x48, ("hardware slowdown", "hardware thermal slowdown")),
        (0x1000, ("reason 0x1000",)),
        (0x1004, ("software power cap", "reason 0x1000")),
    ],
)
def test_every_reason_for_a_low_clock_is_said(bits: int, words: tuple[str, ...]) -> None:
    assert nvml_measures.reasons(bits) == words


@pytest.mark.parametrize(
    ("answers", "name", "words"),
    [
        ({"nvmlDeviceGetMigMode()": [1, 1]}, "mig", "enabled"),
        ({"nvmlDeviceGetMigMode()": [7, 0]}, "mig", "mode 7"),
        (
            {"nvmlDeviceGetRemappedRows()": [1, 2, 1, 0]},
            "remapped_rows",
            "3 (2 after uncorrected errors), more after the next reset",
        ),
        (
            {"nvmlDeviceGetRemappedRows()": [0, 1, 0, 1]},
            "remapped_rows",
            "1 (1 after uncorrected errors), and one could not be",
        ),
        (
            {"nvmlDeviceGetFieldValues(230)": [{"nvmlReturn": 0, "value": {"uiVal": 1}}]},
            "recovery_action",
            "reset of the card",
        ),
        ({"nvmlDeviceGetFieldValues(230)": [{"nvmlReturn": 0, "value": {"uiVal": 9}}]}, "recovery_action", "action 9"),
        (
            {"nvmlDeviceGetFieldValues(230)": [{"nvmlReturn": 3, "value": {"uiVal": 0}}]},
            "recovery_action",
            "absent: this driver does not know the question",
        ),
    ],
)
def test_details_are_said_in_words(answers: dict[str, object], name: str, words: str) -> None:
    reading = read(Played({**recorded("idle"), **answers}))
    assert next(said(one.reading) for one in reading.details if one.name == name) == words


def test_the_constants_are_nvmls_own() -> None:
    real = nvml.load()
    ours = {
        "NVML_CLOCK_SM": nvml_measures.SM,
        "NVML_CLOCK_MEM": nvml_measures.MEMORY,
        "NVML_TEMPERATURE_GPU": nvml_measures.GPU_SENSOR,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": nvml_measures.UNCORRECTED,
        "NVML_VOLATILE_ECC": nvml_measures.SINCE_LOAD,
        "NVML_FI_DEV_MEMORY_TEMP": nvml_measures.MEMORY_TEMPERATURE,
        "nvmlClocksEventReasonGpuIdle": nvml_measures.IDLE,
    }
    for name, value in ours.items():
        assert getattr(real, name) == value, name
    bits = {getattr(real, name) for name in dir(real) if name.startswith("nvmlClocksEventReason")}
    assert bits == {0, nvml_measures.IDLE, *nvml_measures.REASONS, getattr(real, "nvmlClocksEventReasonAll")}  # noqa: B009 - the real module's


def test_the_real_library_has_every_question_that_is_asked() -> None:
    real = nvml.load()
    for name in (name for name in dir(nvml.Gauges) if name.startswith("nvml")):
        assert callable(getattr(real, name)), name
