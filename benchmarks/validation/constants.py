"""The constants of the model that were learnt from plans, and from which plans each was."""

from __future__ import annotations

from mopt_mlir.codegen import lookahead, prefetch_budget
from mopt_mlir.codegen.prefetch import channel_rows as prefetch_channel_rows
from mopt_mlir.codegen.prefetch import input as prefetch_input
from mopt_mlir.codegen.prefetch import output as prefetch_output
from mopt_mlir.codegen.prefetch import panels as prefetch_panels
from mopt_mlir.codegen.prefetch import pixels as prefetch_pixels
from mopt_mlir.estimate import branches, residency, times, visits
from mopt_mlir.lowering import unroll
from mopt_mlir.machine import by_name
from mopt_mlir.model import cost, microkernel, packing, rates, room, stores
from mopt_mlir.solver import incumbent
from mopt_mlir.vector_access import SHARED_SETS_BYTES

from .tables import Rows

CONSTANT_COLUMNS = ("constant", "value", "learnt from")

_FITTED = "sampled plans of Table 1 on Zen 5, AVX-512 and AVX2 code"


def constant_rows() -> Rows:
    """A line for each, with its value of today: first those of costs that the objective and
    predicted times share, then those of predicted times alone, of generated code, of machines."""
    shared = [*_weights_in_place(), *_packing(), *_loads_and_room(), *_objective()]
    code = [*_channels_last(), *_prefetches(), *_prefetched_input()]
    return [*shared, *_predicted_times(), *code, *_zen4(), *_intel(), *_zen3()]


def _weights_in_place() -> Rows:
    return [
        [
            "rows of weights in place that take half a page of room in L2",
            f"those {room.HALF_PAGE} bytes apart, or more",
            "own plans of all three sets on Zen 4, AVX-512 and AVX2 code, channels first and last",
        ],
        [
            "more of the time that weights which are read in place take from L3",
            f"{packing.IN_PLACE_WAIT:.0%}; a quarter of it if they run along the output "
            "channels and operations take two slots",
            "sampled plans of Table 1 on Zen 4, Zen 5 and Granite Rapids; the other sets looked "
            "at, with channels last those on Zen 4",
        ],
        [
            "a line of an HWCF filter in place whose rows are a multiple of 4 KiB apart",
            f"{microkernel.SAME_SETS_CYCLES:g} cycles, a quarter for operations of two slots",
            "a convolution with filters of 32 to 2048 channels, Zen 4",
        ],
        [
            "such a line of rows that share several sets, by the part of 4 KiB that they are "
            "apart, and any line in place where an operation takes one slot",
            f"to the power of {microkernel.SAME_SETS_POWER:g}, {microkernel.APART_CYCLES:g} cycles",
            "a convolution with filters of 256 to 528 channels, and own plans of all three sets "
            "with NHWC and HWCF, Zen 4",
        ],
        [
            "an outer product whose weights in place are rows that begin inside of lines",
            f"{microkernel.INSIDE_LINE_CYCLES:g} cycles",
            "a convolution with filters of 2880 and 2883 channels, Zen 4",
        ],
    ]


def _packing() -> Rows:
    whole = sorted(packing.PACK_CYCLES.values())
    return [
        [
            "packing by elements, and the rest of a vector, of each weight",
            f"{packing.ELEMENT_CYCLES:g} and {packing.REST_CYCLES:g} cycles",
            _FITTED,
        ],
        [
            "packing rows that share a set of L1",
            f"{packing.PACK_CONFLICT_CYCLES:g} cycles",
            _FITTED,
        ],
        [
            "packing in whole vectors",
            f"{whole[0]:g} to {whole[-1]:g} cycles",
            "packing alone, Zen 5",
        ],
        [
            "a row of output channels that is packed as it lies, the first time (later ones like "
            "other weights)",
            f"{packing.PACK_ROW_CYCLES:g} cycles",
            "own plans of layers with images of 7x7, channels last; that later ones take less: "
            "a convolution that packs at L1 up to 56 times; Zen 4",
        ],
    ]


def _loads_and_room() -> Rows:
    return [
        [
            "loads beyond their slots",
            f"{microkernel.LOAD_OVERHEAD - 1:.0%}",
            f"that they do: own plans on Zen 4, C2 of the test set among them; how much: {_FITTED}",
        ],
        [
            "a line of sums that was evicted",
            f"{microkernel.EVICTED_SUMS_CYCLES:g} cycles",
            "microkernels with the sizes of D1 of the test set, Zen 5",
        ],
        [
            "the first line of a run of output",
            f"{1e9 * rates.RUN_SECONDS:g} ns",
            "microkernels that write runs of 128 to 640 bytes, Zen 5",
        ],
        [
            "room for what is packed next, of a block",
            "{:g} in L1, {:g} beyond".format(*(packing.PACKED_COPIES[c] - 1 for c in ("L1", "L2"))),
            "own plans of Table 1 and the test set, Zen 5",
        ],
    ]


def _objective() -> Rows:
    return [
        [
            "weight of each resource in the objective beside the slowest one",
            "{:.0%}, {:.0%} of L2, by the slots of an operation".format(
                cost.EXPOSED["core"], cost.EXPOSED["L2"]
            ),
            "confirmed with own plans of Table 1 and the test set, Zen 4 and Zen 5; "
            "L2's: own plans of all three sets, Zen 4",
        ],
        [
            "starting a visit, in the objective",
            f"{microkernel.CALL_CYCLES:g} cycles",
            "reductions in 1 to 32 pieces, and own plans of all three sets in two layouts, Zen 4",
        ],
        [
            "how much better a plan has to be that was found from small tiles",
            f"{incumbent.SMALL_TILES_GAIN:.1%}",
            "seven own plans of AVX2 code, Zen 4",
        ],
        [
            "a step of a microkernel, handing work to other cores",
            f"{microkernel.LOOP_CYCLES:g} cycles, {1e6 * cost.PARALLEL_START:g} us",
            "estimates",
        ],
    ]


def _predicted_times() -> Rows:
    saved = f"{visits.SAVED_LINE_CYCLES:g} cycles"
    return [
        [
            "part of a resource's time on top of the slowest one's",
            ", ".join(f"{part:.0%} of {name}" for name, part in times.EXPOSED_OF_ANY_PLAN.items()),
            _FITTED,
        ],
        ["between two visits", f"{visits.DRAIN_CYCLES:g} cycles", _FITTED],
        ["to load an accumulator again", f"{visits.RESTORE_CYCLES:g} cycles", _FITTED],
        [
            "a loop that does not run equally often",
            f"{visits.IRREGULAR_CYCLES:g} cycles",
            _FITTED,
        ],
        [
            "each time that such a loop starts, or a quarter where an operation takes two slots",
            f"{visits.RESTART_CYCLES:g} cycles",
            "loops over taps of one convolution, and sampled plans of all trials, Zen 4",
        ],
        [
            "a loop around register tiles that runs less or more often than most",
            f"{branches.MISPREDICTION_CYCLES:g} cycles",
            "sampled plans of Table 1 on Zen 5",
        ],
        ["a line of sums that waits for the next visit", saved, _FITTED],
        [
            "caches in which blocks find no more room than on the sets that their lines fall on",
            " and ".join(residency.CROWDED),
            "sampled plans of Table 1 with NHWC and HWCF, AVX2 code, Zen 4; other trials looked at",
        ],
        [
            "how many times less of L2 and L3 is on top, where an operation takes several slots",
            "as many as it takes",
            "sampled plans of Table 1 and of the held-out set, Zen 4, AVX-512",
        ],
        [
            "what keeps a core busy for a part of each miss, twice as long with operations of two "
            "slots",
            ", ".join(times.BRIDGED),
            "sampled plans of Table 1 and of the held-out set, AVX-512 code, Zen 4",
        ],
    ]


def _channels_last() -> Rows:
    return [
        [
            "sums are kept out of an output with channels last whose pixels are a multiple of this "
            "apart",
            f"{SHARED_SETS_BYTES} bytes",
            "own plans of all three sets with NHWC and HWCF, Zen 4",
        ],
        [
            "with channels last: bytes between rows of weights that are asked for, multiply-adds "
            "beside which that does not weigh, lines asked for at once, step in which pixels are "
            "asked for",
            f"{prefetch_channel_rows.NEAR_ROWS_BYTES}, {prefetch_budget.MANY_PRODUCTS}, "
            f"{prefetch_budget.AT_ONCE}, {prefetch_pixels.LATE}",
            "own plans of all three sets with NHWC and HWCF, Zen 4; the third is guessed",
        ],
    ]


def _prefetches() -> Rows:
    return [
        [
            "between a prefetch and its use, input and output of later tiles",
            f"{lookahead.INPUT_FORESIGHT.cycles} and {lookahead.OUTPUT_FORESIGHT.cycles} cycles",
            "sampled plans of Table 1, Zen 5",
        ],
        [
            "between the prefetches of a register tile's output and its stores",
            f"{prefetch_output.OUTPUT_AHEAD_CYCLES} cycles",
            "layers on Zen 5 (it is not kept which)",
        ],
        [
            "steps of which one asks for the next panels, where they have fewer than "
            f"{prefetch_budget.MANY_PRODUCTS} multiply-adds",
            f"{prefetch_panels.MOST_STEPS}",
            "own plans of Table 1 with NHWC, HWCF and constant weights, Zen 3",
        ],
        [
            "multiply-adds that a loop over channels inside of one over filter taps may leave "
            "behind, AVX2 code",
            f"{unroll.MOST_INSIDE}",
            "own plans of Table 1 and of networks, channels last, constant weights, Zen 3; those "
            "of the test and held-out sets were looked at",
        ],
        [
            "lines of output, on Zen 4, and of weights packed next, asked for at once: at most",
            f"{prefetch_budget.AT_ONCE}",
            "guessed; tried with own plans of Table 1 there",
        ],
        [
            "how much may be accessed before a prefetch is used: until it counts less, and nothing",
            ", ".join(map(_room, (lookahead.INPUT_FORESIGHT, lookahead.OUTPUT_FORESIGHT))),
            "sampled plans of Table 1, Zen 5",
        ],
        [
            "a prefetch that nobody waits for, beside what one saves",
            f"{lookahead.VAIN_COST:g}",
            "sampled plans of Table 1 and the test set, Zen 5",
        ],
    ]


def _prefetched_input() -> Rows:
    return [
        [
            "reductions of fewer steps are asked for by an earlier register tile",
            f"{prefetch_input.SHORT_REDUCTION} steps",
            "layers with 3x3 filters, Zen 5",
        ],
        [
            "rows of taps asked for at once, passes through input asked for twice: at most, on "
            "Granite Rapids",
            f"{prefetch_input.ROWS_AT_ONCE} and {prefetch_input.FEW_PASSES_AGAIN}",
            "own plans of all three sets on Granite Rapids",
        ],
        [
            "rows of input that register tiles share are asked for by whole rows: at most so "
            "often, on Granite Rapids",
            f"{prefetch_input.MOST_ASKED_AGAIN:g} times",
            "own plans of 22 layers of all four sets on Granite Rapids; found in the plan of F1",
        ],
        [
            "passes through input asked for twice where that of later tiles is not, at most",
            f"{prefetch_input.FEW_PASSES}",
            "own plans of 14 layers that are in no set, and of all four sets, on Zen 4",
        ],
        [
            "a reduction that takes so many times what input is asked for ahead is no short one",
            f"{prefetch_input.TIMES_AHEAD}",
            "own plans of 50 layers that are in no set, and of all four sets, on Zen 4; found in "
            "the plan of mbv3",
        ],
    ]


def _zen4() -> Rows:
    zen4, zen5 = map(by_name, ("znver4", "znver5"))
    evicted = (zen5.evicted_store_cycles, zen4.evicted_store_cycles)
    return [
        [
            "a loop around register tiles that runs less or more often than most, on Zen 4",
            f"{zen4.misprediction_cycles:g} cycles",
            "one convolution whose rows are cut into unequal parts, Zen 4; sampled plans of all "
            "trials there ask for 15 to 22",
        ],
        [
            "a line of sums that waits for the next visit, on Zen 4",
            f"{zen4.saved_line_cycles:g} cycles",
            "sampled plans of Table 1 and of the held-out set there",
        ],
        [
            "stores in a row that do not wait, on Zen 4, and what a further one waits",
            f"{zen4.queued_stores} slots, {stores.QUEUE_CYCLES:g} cycles for each slot",
            "microkernels that store 4 to 30 vectors of 512 bits, Zen 4",
        ],
        [
            "of what stores wait, where output is transposed between them; a stage that shuffles a "
            "vector",
            f"{stores.PARTED:.0%}, {stores.SHUFFLE_CYCLES:g} cycles",
            "a convolution of 8 to 40 channels, with 19 register tiles, Zen 4, AVX-512",
        ],
        [
            "a store to a line that was evicted",
            "{:g} cycles on Zen 5, {:g} on Zen 4".format(*evicted),
            "plans of Y0, on Zen 5 also of V1, D1 and E1 of the test set",
        ],
        [
            "the cache that output and the input of later tiles are asked for into, on Zen 4",
            zen4.prefetch_into,
            "own plans of all three sets there",
        ],
    ]


def _intel() -> Rows:
    emerald_rapids, granite_rapids = map(by_name, ("emeraldrapids", "graniterapids"))
    busy = granite_rapids.cache("L2")
    return [
        [
            "the cache that output and the input of later tiles are asked for into, on Granite "
            "Rapids, and how long before it is read input is asked for into L1",
            f"{granite_rapids.prefetch_into}, {prefetch_input.NEAR_CYCLES} cycles",
            "own plans of all three sets there; from L2 into L1: of Table 1 only",
        ],
        [
            "the cache that output and the input of later tiles are asked for into, on Emerald "
            "Rapids",
            emerald_rapids.prefetch_into,
            "own plans of every other operator of Table 1 there, before its trial",
        ],
        [
            "how fast a core reads L2 while it computes, and what part of that time is on top, in "
            "the objective, on Granite Rapids",
            f"{busy.busy_bandwidth:g} GB/s, {busy.exposed:.0%}",
            "own plans of Table 1 with channels last, constant weights and warm caches there; "
            "those of the held-out set and of `networks`, and cold ones, were looked at",
        ],
        [
            "how multiply-adds and loads hinder each other, in the objective, on Granite Rapids",
            f"a norm with exponent {granite_rapids.issue_norm:g}",
            "19 register tiles with all data in L1; own plans were looked at",
        ],
        [
            "an outer product beyond its multiply-adds and loads, on Granite Rapids",
            f"{granite_rapids.loop_cycles:g} cycles",
            "sampled plans of Table 1 there, with operands that fit into L1",
        ],
    ]


def _zen3() -> Rows:
    zen3 = by_name("znver3")
    return [
        [
            "a load that crosses a line, on Zen 3",
            f"{zen3.crossing_cycles:g} cycles",
            "own plans of all three sets there",
        ],
        [
            "stores in a row that do not wait, on Zen 3",
            f"{zen3.queued_stores} slots",
            "own plans of Table 1 there; those of the other sets take as long without",
        ],
        [
            "room in L1 and L2 of a pixel with channels last, on Zen 3 and Zen 5",
            f"{zen3.pixel_room:.0%} of what lies between two of them",
            "own plans with NHWC and HWCF: on Zen 3 of Table 1, and the other sets were looked at, "
            "on Zen 5 of all four sets",
        ],
        [
            "weight of L2 in the objective, and bandwidth of stores past the caches, on Zen 3",
            f"{zen3.cache('L2').exposed:.0%} and {zen3.dram_stream_bandwidth:g} GB/s",
            "own plans of Table 1 there; the test and held-out sets were looked at",
        ],
        [
            "the part of each cache that tiles may fill",
            f"{zen3.capacity_factor:.0%}",
            "an estimate, from before the first trial; on Zen 3 60 and 65% are no better",
        ],
    ]


def _room(foresight: lookahead.Foresight) -> str:
    """From how much on, and up to how much."""
    sizes = [size >> 10 for size, _ in foresight.near]
    return f"{sizes[0]} and {sizes[-1]} KiB"
