"""The data volumes of every memory level and the roofline, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mopt_mlir import units
from mopt_mlir.diagnostics import UserError
from mopt_mlir.explain.explanation import Explanation, Forecast, Transfer
from mopt_mlir.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, PAPER = "#1a1a1a", "#b3b3b3", "#ffffff"

TENSOR_COLOURS = {
    "input": "#56b4e9",
    "weights": "#e69f00",
    "output": "#009e73",
    "packing": "#999999",
}
MEMORY_COLOURS = {"L1": "#0072b2", "L2": "#d55e00", "L3": "#cc79a7", "DRAM": "#7a5195"}
"""From Okabe and Ito's palette, which people with any colour vision can tell apart, and a purple;
memories also differ by their marker."""

MARKERS = {"L1": "o", "L2": "s", "L3": "^", "DRAM": "D"}

WIDTH, HEIGHT = 11.0, 4.9
"""Inches of one operator's row."""

BELOW = 30.0
"""How far below the plan's speed the roofline begins: to show the roofs that it is under."""

DPI = 144
MOST_ROWS = 40
"""More make a picture that is larger than its format and its readers can bear."""

_DOLLAR = r"\$"  # else what lies between two is taken for TeX

POINTS: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mopt",
}
"""Text stays text in SVG, and the same picture is the same bytes."""


def to_png(explanations: Sequence[Explanation]) -> bytes:
    """A row per operator that the model can predict. Raises UserError without matplotlib, or if
    there is nothing to draw."""
    return _saved(_drawable(explanations), "png")


def to_svg(explanation: Explanation) -> str:
    """The picture of one operator as an SVG document. Raises UserError as `to_png`."""
    return _saved(_drawable([explanation]), "svg").decode()


def _drawable(explanations: Sequence[Explanation]) -> list[tuple[str, Forecast, int]]:
    found = [
        (explanation.name, explanation.forecast, explanation.cores)
        for explanation in explanations
        if explanation.forecast is not None
    ]
    if not found:
        raise UserError(f"there is nothing to draw: {explanations[0].unpredicted}")
    if len(found) > MOST_ROWS:
        raise UserError(
            f"{len(found)} operators do not fit into one picture, at most {MOST_ROWS} do; "
            "name a function with --entry, or an operator of a list with --operator"
        )
    return found


def check_installed() -> None:
    """Raise UserError where there is no matplotlib, which is an extra."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UserError(
            "pictures need matplotlib, which is not installed: pip install matplotlib"
        ) from None
    except ValueError as error:
        raise UserError(f"matplotlib cannot be set up, see MPLBACKEND: {error}") from None


def _saved(rows: list[tuple[str, Forecast, int]], kind: str) -> bytes:
    check_installed()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_defaults(), **STYLE}):
        figure = Figure(figsize=(WIDTH, HEIGHT * len(rows)), layout="constrained")
        parts = figure.subfigures(len(rows), 1, squeeze=False)
        for part, (name, forecast, cores) in zip(parts[:, 0], rows, strict=True):
            volumes, roofline = part.subplots(1, 2, width_ratios=(5, 6))
            part.suptitle(
                f"{name.replace('$', _DOLLAR)}: {units.seconds(forecast.seconds)}, "
                f"bottleneck {forecast.prediction.bottleneck}",
                fontweight="bold",
            )
            _draw_volumes(volumes, forecast, cores)
            _draw_roofline(roofline, forecast, cores)
        return _bytes(figure, kind)


def _defaults() -> dict[Any, Any]:
    """matplotlib's own settings, not those of whoever looks at the picture."""
    from matplotlib import rcParamsDefault

    backend = "backend"  # to ask for it, or to set it, loads one that nothing here needs
    return {name: rcParamsDefault[name] for name in rcParamsDefault if name != backend}


def _bytes(figure: Figure, kind: str) -> bytes:
    buffer = BytesIO()
    # Nothing that differs from run to run or names a program
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type")) if kind == "svg" else {}
    figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata or {"Software": None})
    return buffer.getvalue()


# ---- volumes -------------------------------------------------------------------------------------


def _draw_volumes(axes: Axes, forecast: Forecast, cores: int) -> None:
    """A bar per memory, innermost on top, with a piece per tensor."""
    transfers = forecast.transfers[::-1]
    labels = [f"{transfer.source} to {transfer.into}" for transfer in transfers]
    unit, name = _unit(max(transfer.bytes for transfer in transfers))
    starts = [0.0] * len(transfers)
    for tensor in dict.fromkeys(tensor for t in transfers for tensor in t.volumes):
        pieces = [transfer.volumes.get(tensor, 0.0) / unit for transfer in transfers]
        colour = TENSOR_COLOURS.get(tensor, FAINT)
        axes.barh(
            labels, pieces, left=starts, color=colour, edgecolor=PAPER, linewidth=0.5, label=tensor
        )
        starts = [start + piece for start, piece in zip(starts, pieces, strict=True)]
    for row, (transfer, end) in enumerate(zip(transfers, starts, strict=True)):
        text = f"{units.size(transfer.bytes)} in {units.seconds(transfer.seconds)}"
        axes.annotate(text, (end, row), (5, 0), va="center", **POINTS)
    axes.set_xlim(0, 1.5 * max(starts))  # room for the text at the end of the longest bar
    axes.set_xlabel(f"data moved{' by the busiest core, DRAM: by all' * (cores > 1)} ({name})")
    axes.set_title("Data volumes", loc="left")
    axes.tick_params(axis="y", length=0)
    _legend_below(axes, *axes.get_legend_handles_labels())


def _legend_below(axes: Axes, handles: list[Any], names: list[str]) -> None:
    """A legend that covers nothing, whatever the data."""
    axes.legend(
        handles,
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=2,
        frameon=False,
        fontsize=9,
    )


def _unit(amount: float) -> tuple[float, str]:
    """The binary unit in which `amount` bytes are a number of few digits."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if amount >= 2**power:
            return 2.0**power, name
    return 1.0, "bytes"


# ---- roofline ------------------------------------------------------------------------------------


def _draw_roofline(axes: Axes, forecast: Forecast, cores: int) -> None:
    """What each memory sustains at an intensity, what the cores compute at most, and where the plan
    is. Roofs of memories are drawn beyond the peak, to show how far each is from limiting."""
    peak, plan = 1e-9 * forecast.peak, 1e-9 * forecast.performance
    bottom = plan / BELOW
    top = 2 * max(peak, *(1e-9 * transfer.roof for transfer in forecast.transfers))
    intensities = [transfer.intensity for transfer in forecast.transfers]
    low = min(*intensities, *(bottom / _slope(transfer) for transfer in forecast.transfers))
    high = 3 * max(intensities)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, top))
    axes.grid(True, which="major", color=FAINT, linewidth=0.4)
    axes.axhline(peak, color=INK, linewidth=1.5)
    axes.axhline(plan, color=INK, linewidth=0.8, linestyle="--")
    labels = ((peak, "peak", forecast.peak, "bottom"), (plan, "plan", forecast.performance, "top"))
    for height, what, speed, anchor in labels:
        text = f"{what} {units.speed(speed)}"
        axes.annotate(
            text, (low, height), (5, 2 if anchor == "bottom" else -3), va=anchor, **POINTS
        )
    # the largest marker first, so that points in the same place can all be seen
    for position, transfer in enumerate(forecast.transfers[::-1]):
        _draw_memory(axes, transfer, plan, (low, high), 12 - 2 * position)
    axes.set_xlabel("arithmetic intensity (FLOP per byte moved)")
    axes.set_ylabel("speed (GFLOP/s)")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_title(f"Roofline of {counted(cores, 'core')}", loc="left")
    handles, names = axes.get_legend_handles_labels()
    _legend_below(axes, handles[::-1], names[::-1])


def _draw_memory(
    axes: Axes, transfer: Transfer, plan: float, limits: tuple[float, float], size: float
) -> None:
    """The roof of a memory, the plan's point, and what the memory would allow it above that."""
    slope, name = _slope(transfer), transfer.source
    colour, marker = MEMORY_COLOURS[name], MARKERS[name]
    axes.plot(limits, [slope * x for x in limits], color=colour, linewidth=1.2)
    where, roof = (transfer.intensity,) * 2, (plan, 1e-9 * transfer.roof)
    axes.plot(where, roof, color=colour, linewidth=1, linestyle=":")
    axes.plot(where[1], roof[1], marker, color=colour, markersize=5, markerfacecolor=PAPER)
    label = f"{name}: {units.digits(slope)} GB/s, {units.percent(transfer.slack)} slack"
    axes.plot(where[0], plan, marker, color=colour, markersize=size, label=label)


def _slope(transfer: Transfer) -> float:
    """GFLOP/s per FLOP/byte: the bandwidth of all cores in GB/s."""
    return 1e-9 * transfer.roof / transfer.intensity
