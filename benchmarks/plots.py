"""Results as plots: bars as in the paper's Fig. 7 and 8, and a roofline with every operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from math import isnan
from typing import Any

from .bandwidth import DRAM
from .comparison import Comparison
from .peers import BEST_OF_5, OURS, REGISTRY
from .results import Record

_GROUP_WIDTH = 0.84  # of the bars of one operator, the rest is space
_INCHES_PER_BAR = 0.085
_LEAST_INCHES = 7.0
_BAR_HEIGHT = 3.4
_LEGEND_INCHES = 1.6  # for one label
_ROOFLINE_SIZE = 7.0, 4.6
_LINES_SIZE = 5.0, 3.2
_SMALL = 6  # points, of labels beside bars and dots

_COLOURS = {
    OURS: "#b2182b",
    BEST_OF_5: "#ef8a62",
    "onednn": "#2166ac",
    "torch": "#67a9cf",
    "onnxruntime": "#5aae61",
    "openvino": "#762a83",
    "iree": "#c2a500",
    "tvm": "#8c510a",
    "mlir": "#888888",
}
_STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "mopt-bench",  # the same results give the same file
    "svg.fonttype": "none",
}

Points = Sequence[tuple[float, float]]


def bars(comparison: Comparison, reference: str) -> bytes:
    """SVG: every peer's mean rate relative to `reference`'s, with 95% confidence intervals, and
    our GFLOP/s above our bars. Operators that `reference` could not do are left out, and so are
    the bars of results that are wrong."""
    found = [row.right for row in comparison.rows]
    rows = [records for records in found if reference in records]
    peers = [peer for peer in comparison.peers if peer != reference]
    width = _GROUP_WIDTH / max(len(peers), 1)

    def draw(axes: Any) -> None:
        for position, peer in enumerate(peers):
            shift = (position + 0.5) * width - _GROUP_WIDTH / 2
            _bars_of(axes, rows, peer, reference, shift, width)
        name = REGISTRY[reference].title
        axes.axhline(1, color=_COLOURS[reference], linewidth=0.8, label=f"{name} (the line)")
        axes.set_xticks(range(len(rows)), [r[reference].operator for r in rows], rotation=90)
        axes.set_xlim(-0.6, max(len(rows), 1) - 0.4)
        axes.set_ylabel(f"GFLOP/s relative to {name}")
        axes.set_title(comparison.results.configuration.title)
        columns = min(len(peers) + 1, int(inches / _LEGEND_INCHES))
        axes.figure.legend(loc="outside lower center", ncols=columns)

    inches = max(_LEAST_INCHES, _INCHES_PER_BAR * len(rows) * (len(peers) + 1))
    return _svg((inches, _BAR_HEIGHT), draw)


def _known(interval: float | None) -> float:
    """Half of an interval; 0 where a single round leaves it open."""
    return 0.0 if interval is None or isnan(interval) else interval


def _bars_of(
    axes: Any,
    rows: Sequence[Mapping[str, Record]],
    peer: str,
    reference: str,
    shift: float,
    width: float,
) -> None:
    pairs = [(i, r[peer], r[reference]) for i, r in enumerate(rows) if peer in r]
    places = [i + shift for i, _, _ in pairs]
    heights = [record.gflops_mean / base.gflops_mean for _, record, base in pairs]
    errors = [_known(record.ci95) / base.gflops_mean for _, record, base in pairs]
    axes.bar(
        places,
        heights,
        width,
        yerr=errors,
        label=REGISTRY[peer].title,
        color=_COLOURS[peer],
        error_kw={"linewidth": 0.6},
    )
    if peer == OURS:
        for place, height, error, (_, record, _) in zip(
            places, heights, errors, pairs, strict=True
        ):
            label = f" {record.gflops_mean:.0f}"
            axes.text(
                place, height + error, label, rotation=90, ha="center", va="bottom", size=_SMALL
            )


def roofline(comparison: Comparison) -> bytes:
    """SVG: our rate of each operator that is right over its arithmetic intensity, below what the
    FMA peak and the DRAM bandwidth allow; the grey band is the range of the peaks measured."""
    records = comparison.right(OURS)
    low, high = comparison.peaks()
    bandwidth = comparison.results.head["bandwidths"][DRAM]
    intensities = [record.flops / record.bytes for record in records]
    left, right = min([1.0, *intensities]), max([100.0, *intensities]) * 2
    corners = sorted({left, min(max(high / bandwidth, left), right), right})

    def draw(axes: Any) -> None:
        axes.plot(corners, [min(high, bandwidth * x) for x in corners], color="black", linewidth=1)
        axes.axhspan(low, high, color="black", alpha=0.1, linewidth=0)
        rates = [record.gflops_median for record in records]
        axes.scatter(intensities, rates, s=14, color=_COLOURS[OURS])
        for record, x, y in zip(records, intensities, rates, strict=True):
            axes.annotate(record.operator, (x, y), (3, 2), textcoords="offset points", size=_SMALL)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.set_xlabel("flops / compulsory byte")
        axes.set_ylabel("GFLOP/s")
        axes.set_title(
            f"{comparison.results.configuration.title}: DRAM {bandwidth:.0f} GB/s, FMA peak "
            f"{low:.0f} to {high:.0f} GFLOP/s"
        )

    return _svg(_ROOFLINE_SIZE, draw)


def lines(series: Mapping[str, Points], x: str, y: str) -> bytes:
    """SVG: labelled lines on logarithmic axes, with a tick at every x."""
    ticks = sorted({point[0] for points in series.values() for point in points})

    def draw(axes: Any) -> None:
        for label, points in series.items():
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            axes.plot(xs, ys, marker="o", markersize=3, label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.legend()

    return _svg(_LINES_SIZE, draw)


def _svg(inches: tuple[float, float], draw: Callable[[Any], None]) -> bytes:
    """What `draw` puts on a pair of axes. Raises ImportError where matplotlib is missing."""
    return svg(inches, lambda figure: draw(figure.add_subplot()))


def svg(inches: tuple[float, float], draw: Callable[[Any], None]) -> bytes:
    """SVG of what `draw` puts on a figure, the same for the same. Raises ImportError where
    matplotlib is missing."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(inches, layout="constrained")
        draw(figure)
        file = BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
