"""The cards' part of `/metrics`: `arcops_card_*`, in Prometheus' base units. What is unknown has no sample."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from arcops import wire
from arcops.core.cards.measures import Quantity

OLD_AFTER: Final = 90.0
"""Seconds after which what was seen of a card is told no more."""


@dataclass(frozen=True, slots=True)
class Named:
    """How a quantity is called by Prometheus' conventions."""

    name: str
    words: str
    scale: float = 1.0
    """What its unit has to be multiplied by for the one in the name."""
    counter: bool = False


NAMES: Final = {
    Quantity.MEMORY_TOTAL: Named("memory_total_bytes", "Memory of the card."),
    Quantity.MEMORY_USED: Named("memory_used_bytes", "Memory in use of the whole card."),
    Quantity.MEMORY_RESERVED: Named("memory_reserved_bytes", "Memory that the driver keeps for itself."),
    Quantity.CLOCK: Named("clock_hertz", "Clock of an engine.", 1e6),
    Quantity.CLOCK_MAX: Named("clock_max_hertz", "Highest clock of an engine.", 1e6),
    Quantity.BUSY: Named("busy_ratio", "Share of the time in which an engine was busy, since the last reading."),
    Quantity.IDLE_TIME: Named("idle_seconds", "Time in which an engine was idle.", counter=True),
    Quantity.POWER: Named("power_watts", "Power, since the last reading where it comes of a counter."),
    Quantity.ENERGY: Named("energy_joules", "Energy that the card has used.", counter=True),
    Quantity.POWER_LIMIT: Named("power_limit_watts", "Power that the card may use."),
    Quantity.TEMPERATURE: Named("temperature_celsius", "Temperature."),
    Quantity.FAN: Named("fan_rpm", "Speed of a fan, in rotations a minute."),
    Quantity.LINK_WIDTH: Named("link_width_lanes", "Lanes of the PCIe link."),
    Quantity.LINK_SPEED: Named("link_speed_transfers_per_second", "Speed of a lane of the PCIe link.", 1e9),
    Quantity.JOB_TIMEOUT: Named("job_timeout_seconds", "Time after which the driver ends a job, and resets an engine."),
    Quantity.MEMORY_ERRORS: Named("memory_errors", "Uncorrected errors of the memory.", counter=True),
}
"""Every quantity. The names are an interface: docs/operating.md has them."""


class CardCollector(Collector):
    """The families of one moment, `cards`."""

    def __init__(self, cards: wire.Cards) -> None:
        self._cards = [card for card in cards.cards if cards.at - card.at <= OLD_AFTER]
        self._at = cards.at

    def collect(self) -> Iterable[Metric]:
        for quantity, named in NAMES.items():
            yield from _told(_of_quantity(self._cards, quantity, named))
        yield from _told(self._info())
        yield from _told(self._throttling())
        yield from _told(self._held())
        yield from _told(_plain("memory_baseline_bytes", "Memory in use while nobody holds any.", self._baselines()))
        yield from _told(self._resets())

    def _info(self) -> Metric:
        family = InfoMetricFamily("arcops_card", "A card.", labels=["card"])
        for card in self._cards:
            family.add_metric([card.address], {"name": card.name or "", "driver": card.driver or ""})
        return family

    def _throttling(self) -> Metric:
        words = "1 for each reason why the card is held below its clock; a card that is not held has one, none."
        family = GaugeMetricFamily("arcops_card_throttling", words, labels=["card", "reason"])
        for card in self._cards:
            for reason in dict.fromkeys(() if card.throttling is None else card.throttling or ("none",)):
                family.add_metric([card.address, reason], 1.0)
        return family

    def _held(self) -> Metric:
        """Of what the last look at everybody says only while that is young: a holder may come at any time."""
        words = "Memory by whom it is held: ours, allowed, foreign, and unattributed where nobody can be named."
        family = GaugeMetricFamily("arcops_card_memory_held_bytes", words, labels=["card", "kind"])
        for card in self._cards:
            census = card.census
            if census is None or self._at - census.at > OLD_AFTER:
                continue
            for kind, size in held(census).items():
                if size is not None:
                    family.add_metric([card.address, kind], float(size))
        return family

    def _baselines(self) -> Iterator[tuple[str, float]]:
        for card in self._cards:
            if card.baseline is not None:
                yield card.address, float(card.baseline)

    def _resets(self) -> Metric:
        family = CounterMetricFamily("arcops_card_resets", "Resets of the card since boot.", labels=["card"])
        for card in self._cards:
            if card.resets is not None:
                family.add_metric([card.address], float(card.resets))
        return family


def held(census: wire.CardCensus) -> dict[str, int | None]:
    """Bytes by whom they are held; None where that is not known. A look at ours alone knows nothing of others."""
    found = {"ours": _sum(one.resident for one in census.holdings if one.ours)}
    if census.everybody:
        found["allowed"] = _sum(one.resident for one in census.holdings if one.allowed)
        found["foreign"] = _sum(one.resident for one in census.holdings if not one.ours and not one.allowed)
        found["unattributed"] = census.unattributed
    return found


def _sum(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return None if any(size is None for size in known) else sum(size for size in known if size is not None)


def _of_quantity(cards: Iterable[wire.CardInfo], quantity: Quantity, named: Named) -> Metric:
    kind = CounterMetricFamily if named.counter else GaugeMetricFamily
    family = kind(f"arcops_card_{named.name}", named.words, labels=["card", "part"])
    for card in cards:
        told: set[str] = set()
        for one in card.measures:
            if one.quantity == quantity.label and one.value is not None and one.part not in told:
                told.add(one.part)
                family.add_metric([card.address, one.part], one.value * named.scale)
    return family


def _plain(name: str, words: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(f"arcops_card_{name}", words, labels=["card"])
    for address, value in values:
        family.add_metric([address], value)
    return family


def _told(family: Metric) -> Iterator[Metric]:
    """A family without a sample is left out."""
    if family.samples:
        yield family
