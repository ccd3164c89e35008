"""What is accessed after the current register tile, as prefetches have to know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType

from mopt_mlir.codegen.builder import Builder
from mopt_mlir.codegen.index import Index
from mopt_mlir.codegen.ranges import Range, Ranges
from mopt_mlir.plan import Plan


@dataclass(frozen=True)
class Turn:
    """Register tiles step along `dim` from `start` on in steps of `unit`, `tiles` times."""

    dim: str
    start: Index
    unit: int
    tiles: int


@dataclass(frozen=True)
class NextBlock:
    """The block of weights that is packed next."""

    first: Index
    """Its first output channel."""
    count: int
    """Its output channels."""
    moved: str | None
    """The reduction dim along which it lies `shift` further on, if there is one."""
    shift: int
    turns: tuple[Turn, ...]
    """Those of register tiles through what the current block is used for: each of them can prefetch
    a part of the next one."""
    first_pass: tuple[Index, ...]
    """All of these are 0 in the first pass through the weights."""
    wraps: tuple[Index, int] | None = None
    """Where the first of these, an end, has reached the second, a length, the next block is the
    first one of the `count` channels after these: that length less along the dim."""

    @property
    def rows(self) -> int:
        """What each register tile asks for."""
        return -(-self.count // prod(turn.tiles for turn in self.turns))


@dataclass(frozen=True)
class Around:
    """What follows the last step of a loop over `length` points from `start`: its first step again,
    `step` further along `dim`, the dim of the loop around it."""

    dim: str
    step: int
    start: Index
    length: int


@dataclass(frozen=True)
class MovingLoop:
    """A loop that moves in a tensor in steps of `step` along `dim`; `around` it is another."""

    dim: str
    step: int
    around: Around | None = None


def behind(outer: MovingLoop | None, dim: str, through: Range) -> Around | None:
    """What comes behind the last step of a loop over `dim`, `through` a part of it, directly inside
    of `outer`: None if there is no such loop, or it goes on as before."""
    if outer is None or outer.dim == dim:
        return None
    return Around(outer.dim, outer.step, through.start, through.size)


@dataclass(frozen=True)
class NextWeights:
    """The weights that are read after the current ones: `step` further along `dim`, or what comes
    `around` behind the last of these.

    Until then register tiles step along `along` in steps of `unit`, `tiles` times: each of them can
    prefetch a part.
    """

    dim: str
    step: int
    along: str
    unit: int
    tiles: int
    far: bool
    """Whether they are not in L2: they are part of another tile of it, or nobody has read them
    before."""
    first_pass: tuple[Index, ...]
    """While all of these are 0, nobody has."""
    around: Around | None = None


@dataclass(frozen=True)
class NextInput:
    """The input that is read after the current one: `step` further along `dim`.

    `saves` is the part of the waiting for input that prefetches of it may save. Behind the last
    part of a reduction comes what lies `around` it, if that is known: the first part, of the next
    pixels.

    Until then register tiles step along the output channels `along`, if there are several, in steps
    of `unit`, `tiles` times: each of them can prefetch a part.
    """

    dim: str
    step: int
    saves: float
    along: str | None = None
    unit: int = 1
    tiles: int = 1
    around: Around | None = None


def part_of(
    builder: Builder, count: int, following: NextWeights | NextInput, ranges: Ranges
) -> tuple[int, Index]:
    """How many of `count` things, such as lines, each register tile until `following` asks for, and
    how many parts of so many come before that of the tile at the start of `ranges`."""
    each = -(-count // following.tiles)
    parts = -(-count // each)
    if parts == 1 or following.along is None:
        return count, Index()
    return each, builder.apply("part", ranges[following.along].start, following.unit, parts)


def shifts_to(
    builder: Builder,
    following: NextWeights | NextInput,
    start: Index,
    units: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Index]:
    """By how much `following` lies further along each dim, where the current part begins at `start`
    along that of the innermost loop: behind its last step it is the first one of the next step of
    the loop around. Dims in `units` are counted in so many elements, of which steps are multiples.
    """
    around, unit = following.around, units.get(following.dim, 1)
    step = Index(constant=following.step // unit)
    if around is None:
        return {following.dim: step}
    back = -(-around.length // following.step) * following.step
    passed = start + following.step - around.start

    def wrap(by: int) -> Index:
        return builder.step_if_reached("wrap", passed, around.length, by)

    over = around.step // units.get(around.dim, 1)
    return {following.dim: step + wrap(-back // unit), around.dim: wrap(over)}


def part_of_block(
    builder: Builder, turns: Sequence[Turn], tile: Mapping[str, Index], parts: int
) -> Index:
    """Which of so many parts falls to the register tile at `tile`."""
    number, all_ = Index(), 1
    for turn in turns:
        offset = tile[turn.dim] - turn.start
        step = builder.apply("turn", offset, turn.unit)
        number, all_ = number + step * all_, all_ * turn.tiles
    return number if parts == all_ else builder.apply("part", number, modulo=parts)


def block_from(builder: Builder, block: NextBlock, first: Index) -> tuple[Index, Index]:
    """The output channel `first` of `block`, and how much further it lies along the reduction dim,
    if the block may be behind the last one of these channels."""
    shift = Index(constant=block.shift)
    if block.wraps is None:
        return first, shift
    end, length = block.wraps
    wrap = builder.apply("wrap", end, length)  # 1 where the end is reached, else 0
    return first + wrap * block.count, shift - wrap * length


def shifted(at: Mapping[str, Index], shifts: Mapping[str, Index]) -> dict[str, Index]:
    """The place that lies `shifts` further along each dim than `at`."""
    return {**at, **{dim: at[dim] + shift for dim, shift in shifts.items()}}


@dataclass(frozen=True)
class VisitingLoop:
    """A loop `through` a part of the reduction `dim`, in steps of `step`: in each of them a
    register tile is visited."""

    dim: str
    through: Range
    step: int

    @property
    def count(self) -> int:
        return -(-self.through.size // self.step)


@dataclass(frozen=True)
class NextOutput:
    """The output that is written after the current one: `step` further along `dim`; `saves` as of
    `NextInput`. Where the current one is visited several times until then, `visits` are these."""

    dim: str
    step: int
    saves: float
    visits: VisitingLoop | None = None


@dataclass(frozen=True)
class Upcoming:
    """What is accessed after the current register tile or a few of them, as far as it is known."""

    into: str
    """The cache into which that, and the output of the current one, is asked for."""
    again: bool = False
    """Whether such input is asked for once more, from there into L1, shortly before it is read."""
    input: NextInput | None = None
    pixel_loop: MovingLoop | None = None
    """The loop directly around, if it goes through pixels."""
    output: NextOutput | None = None
    weights: NextWeights | None = None
    weights_loop: MovingLoop | None = None
    """The innermost loop that moves in the weights, until one inside of it reads them again: then
    `weights` are those that are read next."""
    since: Mapping[str, Index] = field(default_factory=dict)
    """Indices of reduction dims since which the output of the current one has been in the caches,
    if it was visited before; since 0 where there is none."""

    @staticmethod
    def of(plan: Plan) -> Upcoming:
        """What is known outside of all loops."""
        return Upcoming(cache_of(plan), again=plan.prefetch == "both")

    def with_panels(self) -> Upcoming:
        """What is known once weights have been packed: no loop around that moves in panels."""
        return replace(self, weights=None, weights_loop=None)


def cache_of(plan: Plan) -> str:
    """The cache into which `plan` asks for what later register tiles read."""
    return "L2" if plan.prefetch == "both" else plan.prefetch
