"""Quantities as a reader wants them: three significant digits and a unit."""

from __future__ import annotations

from math import floor, log10

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")


def size(amount: float) -> str:
    """Bytes in binary units: `144 KiB`."""
    if amount < 1024:
        return f"{amount:.0f} B"
    power = 0
    while amount >= 1023.5 and power < len(_BYTES) - 1:  # what rounds to 1024 is one unit more
        amount, power = amount / 1024, power + 1
    return f"{digits(amount)} {_BYTES[power]}"


def seconds(time: float) -> str:
    """`852 us`."""
    for limit, unit, factor in ((1e-6, "ns", 1e9), (1e-3, "us", 1e6), (1, "ms", 1e3)):
        if time < 0.9995 * limit:
            return f"{digits(time * factor)} {unit}"
    return f"{digits(time)} s"


def speed(flops: float) -> str:
    """FLOP/s: `253 GFLOP/s`."""
    return (
        f"{digits(flops * 1e-12)} TFLOP/s" if flops >= 1e12 else f"{digits(flops * 1e-9)} GFLOP/s"
    )


def bandwidth(rate: float) -> str:
    """Bytes per second, in decimal units as machine files have them: `205 GB/s`."""
    return f"{digits(rate * 1e-9)} GB/s"


def percent(part: float) -> str:
    """A part of a whole: `77%`, with a decimal below 10%."""
    return f"{part:.0%}" if part == 0 or abs(part) >= 0.0995 else f"{part:.1%}"


def change(relative: float) -> str:
    """A relative difference with its sign: `+3.6%`; what rounds to nothing keeps its sign."""
    if abs(relative) < 5e-5:
        return "+0.00%" if relative > 0 else "-0.00%"
    places = 2 if abs(relative) < 0.00995 else 1 if abs(relative) < 0.9995 else 0
    return f"{relative:+.{places}%}"


def digits(number: float) -> str:
    """Three significant digits, more if there are more in front of the point: `0.852`, `14.0`,
    `1250`."""
    if number == 0:
        return "0"
    rounded = round(number, 2 - floor(log10(abs(number))))
    return f"{number:.{max(0, 2 - floor(log10(abs(rounded))))}f}"
