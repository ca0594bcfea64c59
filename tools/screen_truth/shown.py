"""What stands on the screen, read back from its text."""

import re

_NUMBER = r"< 0\.01|[\d,]+(?:\.\d+)?"
_CELL = re.compile(r"(?:[≤>≈<] ?)?[\d.,]+(?:–[\d.,]+)? (?:ms|µs|s)\b")


def rate(screen: str, label: str, unit: str) -> float | None:
    """The number with that unit behind the label, on the same line."""
    match = re.search(rf"\b{re.escape(label)}\b[^\n\d]{{0,24}}?({_NUMBER}) ?{re.escape(unit)}", screen, re.IGNORECASE)
    return None if match is None else float(match[1].replace(",", "").removeprefix("< "))


def cells(screen: str, label: str) -> list[str]:
    """The latencies on the line with that label, as they stand there: `1–5 ms`, `≤ 0.3 s`."""
    for line in screen.splitlines():
        _, found, rest = line.partition(f" {label} ")
        if found and (told := _CELL.findall(rest)):
            return told
    return []
