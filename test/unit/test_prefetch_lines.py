"""Which lines of input are asked for ahead: all that are read, and none that taps leave out."""

from itertools import product

import pytest

from mopt_mlir.codegen.prefetch.input import _line_offsets
from mopt_mlir.problem import ElementType, LinearForm, Tensor

LINE = 16  # elements


def tensor(stride: int, dilation: int, channels: int) -> Tensor:
    """Rows of pixels, with `channels` next to each other in each."""
    axes = LinearForm.of(w=stride, s=dilation), LinearForm.of(c=1)
    return Tensor("input", ElementType.F32, axes, (channels, 1))


def lines(elements: set[int], start: int) -> set[int]:
    return {(start + element) // LINE for element in elements}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dilation", [1, 2, 17, 40, 512])
@pytest.mark.parametrize("stride", [1, 2, 33])
def test_each_line_that_is_read_is_asked_for_and_no_other(
    stride: int, dilation: int, channels: int
) -> None:
    sizes = {"w": 14, "s": 3, "c": channels}
    read = {
        (stride * w + dilation * s) * channels + c
        for w, s, c in product(range(14), range(3), range(channels))
    }
    asked = [
        index.constant for index in _line_offsets(tensor(stride, dilation, channels), sizes, 2)
    ]
    assert asked == sorted(set(asked))
    for start in range(LINE):
        assert lines(read, start) <= lines(set(asked), start)
        between = lines({element + gap for element in read for gap in range(LINE + 1)}, start)
        assert lines(set(asked), start) <= between
    assert max(asked) == max(read)


def test_taps_that_lie_far_apart_are_a_few_lines() -> None:
    asked = _line_offsets(tensor(1, 512, 1), {"w": 14, "s": 3, "c": 1}, 2)
    assert [index.constant for index in asked] == [0, 13, 512, 525, 1024, 1037]
