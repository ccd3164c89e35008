"""Every named convolution computes what its name says, with strides, dilations and batches, and so
does the generic operation that it is short for."""

from __future__ import annotations

import pytest
from plain_convolution import close, convolve, random_arrays

import mopt_mlir
from mopt_mlir.bindings import bindings
from mopt_mlir.lowering.upstream import run_upstream
from mopt_mlir.pipeline.loading import load_module

LAYOUTS = {
    "conv_1d": "w_w",
    "conv_2d": "hw_hw",
    "conv_3d": "dhw_dhw",
    "conv_1d_ncw_fcw": "ncw_fcw",
    "conv_1d_nwc_wcf": "nwc_wcf",
    "conv_2d_nchw_fchw": "nchw_fchw",
    "conv_2d_nhwc_fhwc": "nhwc_fhwc",
    "conv_2d_nhwc_hwcf": "nhwc_hwcf",
    "conv_3d_ncdhw_fcdhw": "ncdhw_fcdhw",
    "conv_3d_ndhwc_dhwcf": "ndhwc_dhwcf",
}
PIXELS = {"d": 3, "h": 4, "w": 9}
TAPS = {"d": 2, "h": 3, "w": 4}
STRIDES = {"d": 3, "h": 1, "w": 2}
DILATIONS = {"d": 1, "h": 3, "w": 2}
ONES = {"d": 1, "h": 1, "w": 1}


def test_no_named_convolution_is_missing() -> None:
    """But those that are quantized or have groups, which are not supported."""
    names = {name for name in dir(bindings().linalg) if name.startswith("conv_")}
    assert set(LAYOUTS) == {name for name in names if not name.endswith("_q") and "g" not in name}


def check(
    name: str,
    batch: int,
    strides: dict[str, int],
    dilations: dict[str, int],
    *,
    generic: bool = False,
) -> None:
    layout = LAYOUTS[name]
    image_axes, filter_axes = layout.split("_")
    axes = [axis for axis in "dhw" if axis in image_axes]
    rows = {
        axis: strides[axis] * (PIXELS[axis] - 1) + dilations[axis] * (TAPS[axis] - 1) + 1
        for axis in axes
    }
    channels = {"n": batch, "c": 5, "f": 18}
    image, filters, output = random_arrays(
        tuple({**channels, **rows}[axis] for axis in image_axes),
        tuple({**channels, **TAPS}[axis] for axis in filter_axes),
        tuple({**channels, **PIXELS}[axis] for axis in image_axes.replace("c", "f")),
    )
    steps, gaps = ([given[axis] for axis in axes] for given in (strides, dilations))
    attributes = ""
    if "n" in image_axes:
        kind = f"tensor<{len(axes)}xi64>"
        attributes = f"{{strides = dense<{steps}> : {kind}, dilations = dense<{gaps}> : {kind}}}"
    types = [f"memref<{'x'.join(map(str, a.shape))}xf32>" for a in (image, filters, output)]
    text = f"""func.func @conv(%image: {types[0]}, %filters: {types[1]}, %output: {types[2]}) {{
      linalg.{name} {attributes} ins(%image, %filters : {types[0]}, {types[1]})
        outs(%output : {types[2]})
      return
    }}"""
    expected = output + convolve(image, filters, layout, steps, gaps)
    module = load_module(text)
    if generic:
        run_upstream(module.operation, "linalg-generalize-named-ops")
        assert "linalg.generic" in str(module)
    mopt_mlir.compile(module, require_tiled=True)["conv"](image, filters, output)
    close(output, expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_named_convolution(name: str) -> None:
    check(name, 1, ONES, ONES)


@pytest.mark.parametrize(
    ("batch", "strides", "dilations"),
    [(3, ONES, ONES), (1, STRIDES, ONES), (1, ONES, DILATIONS), (2, STRIDES, DILATIONS)],
    ids=["batch", "strides", "dilations", "all"],
)
@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if "n" in layout])
def test_what_named_convolutions_may_have(
    name: str, batch: int, strides: dict[str, int], dilations: dict[str, int]
) -> None:
    check(name, batch, strides, dilations)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_generic_operation(name: str) -> None:
    several = "n" in LAYOUTS[name]
    strides, dilations = (STRIDES, DILATIONS) if several else (ONES, ONES)
    check(name, 2, strides, dilations, generic=True)
