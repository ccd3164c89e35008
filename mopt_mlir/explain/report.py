"""What is said of an explanation: sections of sentences, listings and tables, in no format yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from mopt_mlir import units
from mopt_mlir.explain.alternatives import Alternative
from mopt_mlir.explain.explanation import CacheUse, Explanation, Forecast
from mopt_mlir.explain.moves import INNERMOST, kernel_text
from mopt_mlir.loop_nest import CORES, REDUCTION, REGISTERS, Loop, Packing, Step
from mopt_mlir.problem import LinearForm, Problem, Tensor
from mopt_mlir.wording import counted

SHOWN = 5
SHOWN_PER_LEVEL = 3
NAMED = 4
"""Lines of each kind of alternative, and alternatives with one outcome in a line, that are worth a
reader's time; the JSON record has all."""

HANDING_OUT = "handing out work"


@dataclass(frozen=True)
class Table:
    """`header` and `rows` of cells; `text` are the columns of text, the others hold figures."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Section:
    """Under a title: sentences, then a listing with its own line breaks or a table."""

    title: str
    sentences: tuple[str, ...] = ()
    listing: tuple[str, ...] = ()
    table: Table | None = None


@dataclass(frozen=True)
class Report:
    """`title` names the operator, `summary` is about it as a whole."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]


def report(explanation: Explanation) -> Report:
    """All that a reader is told, the most important first."""
    sections = [_nest(explanation), _microkernel(explanation), _tiles(explanation)]
    if explanation.forecast is not None:
        sections.append(_traffic(explanation, explanation.forecast))
        sections.append(_alternatives(explanation))
    return Report(
        title=f"{explanation.name}: {_extents(explanation.problem)}",
        summary=tuple(_summary(explanation)),
        sections=tuple(section for section in sections if section),
    )


# ---- the operator and the verdict ----------------------------------------------------------------


def _extents(problem: Problem) -> str:
    return " ".join(f"{dim.name}={dim.extent}" for dim in problem.dims)


def _summary(explanation: Explanation) -> Iterator[str]:
    problem, plan = explanation.problem, explanation.plan
    names = (problem.output, problem.input, problem.weights)
    output, input_, weights = map(_access, names)
    yield f"{output} += {input_} * {weights}, {problem.output.element.value}, {_flops(problem)}"
    if explanation.places:
        yield f"at {', '.join(explanation.places)}"
    forecast = explanation.forecast
    if forecast is None:
        yield f"Not predicted: {explanation.unpredicted}."
    else:
        yield from _verdict(explanation, forecast)
    for note in explanation.notes:
        yield f"Note: {note}."
    if explanation.cores < plan.threads:
        yield f"Note: {explanation.cores} of {plan.threads} cores get work."


def _verdict(explanation: Explanation, forecast: Forecast) -> Iterator[str]:
    cores = explanation.plan.cores
    yield (
        f"Predicted: {units.seconds(forecast.seconds)}, {units.speed(forecast.performance)}, "
        f"{units.percent(forecast.performance / forecast.peak)} of the peak of "
        f"{counted(cores, 'core')} of {explanation.machine.name} ({units.speed(forecast.peak)})."
    )
    times = {_core_work(forecast): forecast.core_seconds, HANDING_OUT: forecast.starting_seconds}
    times |= {f"{t.source} to {t.into}": t.seconds for t in forecast.transfers}
    first, second, *_ = sorted(times, key=lambda name: -times[name])
    spare = units.percent(1 - times[second] / forecast.slowest)
    yield (
        f"Bottleneck: {first}, {units.seconds(times[first])}. Next comes {second}, with "
        f"{units.seconds(times[second])}: {spare} of slack."
    )
    if forecast.undercut is not None:
        bound = units.seconds(forecast.undercut)
        yield f"Bound: the solver's, {bound}, does not cover this plan, which costs less."
    elif forecast.bound is None or forecast.gap is None:
        yield "Bound: none is known for this plan; the solver attaches one to those it makes."
    else:
        yield (
            f"Bound: none of the solver's plans takes less than {units.seconds(forecast.bound)}; "
            f"this one takes {forecast.gap:.2%} more."
        )


def _core_work(forecast: Forecast) -> str:
    """What a core does, first what takes most of its time."""
    times = forecast.prediction.seconds
    work = {"computing": times["compute"], "packing": times["packing"]}
    done = [name for name, seconds in work.items() if seconds]
    return " and ".join(sorted(done, key=lambda name: -work[name]))


def _flops(problem: Problem) -> str:
    scale, unit = (1e-9, "GFLOP") if problem.flops >= 1e9 else (1e-6, "MFLOP")
    return f"{units.digits(problem.flops * scale)} {unit}"


def _access(tensor: Tensor) -> str:
    axes = [_form(axis) for axis in tensor.axes if axis.terms]
    return f"{tensor.name}[{', '.join(axes)}]"


def _form(form: LinearForm) -> str:
    return " + ".join(dim if factor == 1 else f"{factor}*{dim}" for dim, factor in form.terms)


# ---- loops ---------------------------------------------------------------------------------------


def _nest(explanation: Explanation) -> Section:
    lines, depth = [], 0
    for step in explanation.nest:
        lines.append(("  " * depth + _step(explanation, step), _about(step)))
        depth += isinstance(step, Loop)
    registers = explanation.registers
    wide = "input" if registers.lanes in explanation.problem.input.dims else "weights"
    narrow = "weights" if wide == "input" else "input"
    kernel = (
        f"{counted(registers.accumulators, 'accumulator')} += "
        f"{counted(registers.vectors, 'vector')} of {wide} x "
        f"{counted(registers.broadcasts, 'value')} of {narrow}"
    )
    lines.append(("  " * depth + kernel, ""))
    margin = max((len(code) for code, about in lines if about), default=0) + 2
    return Section(
        "Loop nest",
        ("Loops that would run once are left out.",),
        tuple(f"{code:{margin}}{about}".rstrip() for code, about in lines),
    )


def _step(explanation: Explanation, step: Step) -> str:
    if isinstance(step, Packing):
        return f"pack weights[{_sizes(step.sizes)}]"
    keyword = "parallel" if step.band == CORES else "for"
    return f"{keyword} {step.name}"


def _about(step: Step) -> str:
    if isinstance(step, Packing):
        place = "before all loops" if step.place == "whole" else f"per tile of {step.place}"
        return f"{units.size(step.bytes)} of panels, {place}, by {counted(step.cores, 'core')}"
    if step.band == REDUCTION:
        return f"{step.trips} steps of the reduction"
    what = {CORES: "shares", REGISTERS: "register tiles"}.get(step.band, f"{step.band} tiles")
    rest = step.extent % step.step
    last = f", the last {rest}" if rest else ""
    return f"{step.trips} {what} of {step.step}{last}"


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{dim} {size}" for dim, size in sizes.items())


# ---- registers -----------------------------------------------------------------------------------


def _microkernel(explanation: Explanation) -> Section:
    use, plan = explanation.registers, explanation.plan
    limits = {
        f"{use.accumulators} FMAs": use.fma_cycles,
        counted(use.loads, "load"): use.load_cycles,
        "latency of one FMA": use.latency,
    }
    rows = (
        ("register tile", f"{kernel_text(plan.microkernel)}, lanes over {use.lanes}"),
        (
            "registers",
            f"{use.used} of {use.available}: {counted(use.accumulators, 'accumulator')}, "
            f"{counted(use.vectors, 'vector')} of {use.vector}, 1 broadcast",
        ),
        (
            "per step",
            f"{counted(use.vectors, 'vector load')}, {counted(use.broadcasts, 'broadcast')}, "
            f"{counted(use.accumulators, 'FMA')}",
        ),
        (
            "cycles per step",
            ", ".join(f"{what} {units.digits(cycles)}" for what, cycles in limits.items())
            + f"; with all that a step waits for {units.digits(use.step_cycles)}",
        ),
        ("lanes in use", units.percent(use.useful)),
        ("weights", _weights(explanation)),
        ("stores", "past the caches" if plan.nontemporal else "through the caches"),
        (
            "prefetches",
            ("" if plan.nontemporal else "of output, and ")
            + f"of what later register tiles read, into {_asked_into(plan.prefetch)}",
        ),
    )
    return Section("Microkernel", table=Table(("what", "how"), rows, text=(0, 1)))


def _asked_into(prefetch: str) -> str:
    return "L2, input from there into L1" if prefetch == "both" else prefetch


def _weights(explanation: Explanation) -> str:
    plan = explanation.plan
    if not plan.reads_panels:
        return "read where they lie"
    order = " ".join(plan.microkernel.reduction)
    channel = explanation.problem.out_channel
    width = plan.microkernel.extent(channel)
    packed = any(isinstance(step, Packing) for step in explanation.nest)
    when = "at run time" if packed else "when code is generated"
    return f"packed {when} into panels of {width} output channels, in the order {order}"


# ---- caches --------------------------------------------------------------------------------------


def _tiles(explanation: Explanation) -> Section:
    problem = explanation.problem
    names = tuple(dim.name for dim in problem.dims if dim.extent > 1) or problem.names[:1]
    rows = [("problem", *(str(problem.extent(d)) for d in names), *[""] * 7)]
    rows += [_tile_row(cache, names, explanation) for cache in explanation.caches]
    kernel = explanation.plan.microkernel
    parallel = problem.parallel_dims
    tile = (str(kernel.extent(d)) if d in parallel else "" for d in names)
    rows.append(("registers", *tile, *[""] * 7))
    header = ("tile of", *names, "input", "weights", "output", "sum", "usable", "filled", "inner")
    return Section(
        "Tiles",
        (
            "What stays in each cache while the loops inside run. Usable is the part of a cache "
            "that tiles may fill; inner are the innermost loops from tile to tile.",
        ),
        table=Table(header, tuple(rows)),
    )


def _tile_row(cache: CacheUse, names: tuple[str, ...], explanation: Explanation) -> tuple[str, ...]:
    sizes = (str(cache.tile[dim]) for dim in names)
    parts = (units.size(amount) for amount in cache.footprint.values())
    total = units.size(cache.bytes)
    steps = any(isinstance(s, Loop) and s.band == cache.name for s in explanation.nest)
    inner = cache.order_class if steps else "one tile"
    return (
        cache.name,
        *sizes,
        *parts,
        total,
        units.size(cache.usable),
        units.percent(cache.filled),
        inner,
    )


# ---- traffic -------------------------------------------------------------------------------------


def _traffic(explanation: Explanation, forecast: Forecast) -> Section:
    tensors = list(dict.fromkeys(name for t in forecast.transfers for name in t.volumes))
    rows = [
        (
            f"{transfer.source} to {transfer.into}",
            *(units.size(transfer.volumes[n]) if n in transfer.volumes else "" for n in tensors),
            units.size(transfer.bytes),
            units.bandwidth(transfer.bandwidth),
            units.digits(transfer.intensity),
            units.seconds(transfer.seconds),
            units.percent(transfer.slack),
        )
        for transfer in forecast.transfers
    ]
    blank = [""] * (len(tensors) + 3)
    times = {name: forecast.prediction.seconds[name] for name in ("compute", "packing")}
    for name, seconds in {**times, HANDING_OUT: forecast.starting_seconds}.items():
        if seconds:
            slack = units.percent(forecast.core_slack) if name == "compute" else ""
            rows.append((name, *blank, units.seconds(seconds), slack))
    header = ("resource", *tensors, "sum", "bandwidth", "FLOP/B", "time", "slack")
    whose = ""
    if explanation.cores > 1:
        whose = (
            " Handing out work comes on top. Volumes and bandwidths are those of the busiest core, "
            "for DRAM of all cores."
        )
    return Section(
        "Data volumes and times",
        (
            "Slack is what a resource leaves of the slowest one's time; a core packs and computes "
            f"one after the other, all else overlaps.{whose}",
        ),
        table=Table(header, tuple(rows)),
    )


# ---- alternatives --------------------------------------------------------------------------------


def _alternatives(explanation: Explanation) -> Section:
    rows: list[tuple[str, ...]] = []
    for (kind, level), same in groupby(explanation.alternatives, key=lambda a: (a.kind, a.level)):
        told = [_outcome(outcome, list(group)) for outcome, group in groupby(same, key=_verdict_of)]
        shown = SHOWN_PER_LEVEL if level else SHOWN
        rows += [(f"{level} {kind}".lstrip(), *cells) for cells in told[:shown]]
    return Section(
        "Runners-up",
        (
            "What the plan would cost with another decision. Looked at are the best microkernel of "
            "each width, other splits between as many cores, and tiles halved or doubled; not "
            "listed is what makes no difference, or costs more than what is listed of its kind.",
        ),
        table=Table(("decision", "cost", "slowest then", "instead"), tuple(rows), text=(0, 2, 3)),
    )


def _verdict_of(alternative: Alternative) -> tuple[str, str]:
    """What a reader sees of its merits: what is slowest then, or what it does not fit into."""
    if alternative.loss is None:
        return alternative.obstacle, "does not fit"
    return alternative.bottleneck, units.change(alternative.loss)


def _outcome(verdict: tuple[str, str], same: list[Alternative]) -> tuple[str, str, str]:
    """One line for the alternatives that come out the same."""
    told, cost = verdict
    order = same[0].kind == "order"
    changes = [a.change.removesuffix(INNERMOST) if order else a.change for a in same[:NAMED]]
    if len(same) > NAMED:
        changes.append(f"{len(same) - NAMED} others")
    change = " or ".join(changes) + INNERMOST * order
    return cost, told, change
