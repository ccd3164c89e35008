"""What a module says of its target, read with both bindings, and what counts more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mopt_mlir.diagnostics import UserError
from mopt_mlir.machine import by_name, registry, resolve
from mopt_mlir.machine.dlti import described, refined
from mopt_mlir.machine.provenance import SHIPPED_FILE, describe_file
from mopt_mlir.machine.registry import shipped
from mopt_mlir.pipeline.steps import add_passes
from mopt_mlir.tools.mopt_opt import main
from mopt_mlir.tools.mopt_plan import main as plan_main

ZEN5 = replace(by_name("znver5"), name="host")
CONV = """
  func.func @conv(%input: memref<1x8x8x14xf32>, %weights: memref<16x8x3x3xf32>,
                  %output: memref<1x16x6x12xf32>) {
    linalg.conv_2d_nchw_fchw
        ins(%input, %weights : memref<1x8x8x14xf32>, memref<16x8x3x3xf32>)
        outs(%output : memref<1x16x6x12xf32>)
    return
  }
"""


@pytest.fixture(params=["mlir", "torch_mlir"])
def package(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """This host is a Zen 5, whatever it is."""
    zen5 = describe_file(replace(shipped("znver5"), machine=ZEN5), SHIPPED_FILE)
    monkeypatch.setattr(registry, "describe_host", lambda: zen5)


def parsed(package: str, attributes: str, body: str = "") -> Any:
    ir = import_module(f"{package}.ir")
    with ir.Context(), ir.Location.unknown():
        return ir.Module.parse(f"module attributes {{{attributes}}} {{{body}}}").operation


def spec(entries: str) -> str:
    return (
        "dlti.target_system_spec = "
        f'#dlti.target_system_spec<"CPU" = #dlti.target_device_spec<{entries}>>'
    )


@pytest.mark.parametrize(
    ("attributes", "figures"),
    [
        ("", {}),
        (spec('"L1_cache_size_in_bytes" = 32768 : i32'), {"L1.size": 32768}),
        (spec('"L2_cache_size_in_bytes" = 524288 : ui64'), {"L2.size": 524288}),
        (spec('"L3_cache_size_in_bytes" = "16777216"'), {"L3.size": 16777216}),
        (spec('"max_vector_op_width" = 256'), {"vector_bits": 256}),
        (spec('"max_vector_width" = 256 : i64'), {"vector_bits": 256}),
        (spec('"num_threads" = 4 : i32'), {"cores": 4}),
        (spec('"num_threads" = 8 : i32, "num_cores" = 4 : i32'), {"cores": 4}),
        (
            spec(
                '"cache" = #dlti.map<"L1" = #dlti.map<"size_in_bytes" = 65536 : i32>,'
                ' "L1d" = #dlti.map<"size_in_bytes" = 32768 : i32>,'
                ' "L2" = #dlti.map<"size_in_bytes" = 524288 : i32>>'
            ),
            {"L1.size": 32768, "L2.size": 524288},
        ),
        (spec('#dlti.dl_entry<"num_threads", 4 : i32>'), {"cores": 4}),  # the older form
        ('dlti.map = #dlti.map<"CPU" = #dlti.map<"num_cores" = 4 : i32>>', {"cores": 4}),
        (
            '"#dlti.sys_spec" = #dlti.target_system_spec<'
            '"CPU" = #dlti.target_device_spec<"num_cores" = 4 : i32>>',
            {"cores": 4},
        ),
        # a target counts more than a map
        (
            'dlti.map = #dlti.map<"CPU" = #dlti.map<"num_cores" = 2 : i32>>, '
            + spec('"num_cores" = 4 : i32'),
            {"cores": 4},
        ),
        # other devices, other figures, other attributes
        (
            "dlti.target_system_spec = #dlti.target_system_spec<"
            '"GPU" = #dlti.target_device_spec<"max_vector_op_width" = 64 : ui32>>',
            {},
        ),
        (
            spec('"tile_size" = 32 : i32, "unroll" = [1, 2], "map" = affine_map<(i) -> (i + 1)>'),
            {},
        ),
        (spec('"name" = "\\"CPU\\" = <, >", "num_cores" = 2 : i32'), {"cores": 2}),
        ('dlti.dl_spec = #dlti.dl_spec<"dlti.stack_alignment" = 128 : i64, index = 32>', {}),
        ("test.weights = dense<1.0> : tensor<4xf32>, test.unit", {}),
    ],
)
def test_figures_are_read(package: str, attributes: str, figures: dict[str, int]) -> None:
    assert described(parsed(package, attributes)) == figures


@pytest.mark.parametrize("value", ["-1 : i32", "1.5 : f32", '"many"', "[4]", "unit"])
def test_a_figure_that_is_no_number_is_refused(package: str, value: str) -> None:
    module = parsed(package, spec(f'"num_cores" = {value}'))
    with pytest.raises(ValueError, match=r'^"num_cores" = .*: not a whole number$'):
        described(module)


def test_the_machine_takes_the_figures_and_says_so() -> None:
    machine = refined(ZEN5, {"L1.size": 32768, "L2.size": 1048576, "cores": 4})
    assert machine.name == "host,L1.size=32256,cores=4"
    # Zen 5 has 12 ways of 64 bytes; what is left over of its capacity is of no use to a tile
    assert machine.cache("L1").size == 32256
    assert machine.cache("L1").bandwidth_all == 4 * ZEN5.cache("L1").bandwidth
    assert replace(machine, name="", cores=8) == replace(
        ZEN5.override({"L1.size": "32256", "cores": "4"}), name="", cores=8
    )


def test_a_module_that_describes_the_host_changes_nothing() -> None:
    assert refined(ZEN5, {"L1.size": 49152, "vector_bits": 512, "cores": 8}) == ZEN5


def test_bandwidths_that_no_figure_changes_stay_as_they_were_measured() -> None:
    measured = ZEN5.with_field("L1.bandwidth_all", 4000.0)
    assert refined(measured, {"L2.size": 524288}).cache("L1").bandwidth_all == 4000


def test_narrow_vectors_come_with_their_registers() -> None:
    assert refined(ZEN5, {"vector_bits": 256}).vector_registers == 16
    assert refined(by_name("haswell"), {"vector_bits": 512}).vector_registers == 32
    narrow = refined(by_name("znver5"), {"vector_bits": 256})
    assert resolve(narrow.name) == narrow


def test_a_given_machine_counts_more_than_the_module_and_that_more_than_the_host() -> None:
    module = parsed("mlir", spec('"L2_cache_size_in_bytes" = 524288 : i32, "num_cores" = 4 : i32'))
    assert resolve("auto", module).name == "host,L2.size=524288,cores=4"
    assert resolve("auto") == ZEN5
    overridden = resolve("auto,cores=2,fma_latency=5", module)
    assert (overridden.cores, overridden.fma_latency) == (2, 5)
    assert overridden.cache("L2").size == 524288
    assert resolve("host", module) == ZEN5
    assert resolve("haswell", module) == by_name("haswell")


def test_a_wrong_figure_does_not_matter_where_the_machine_is_given() -> None:
    assert resolve("host", parsed("mlir", spec('"num_cores" = "many"'))) == ZEN5


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('"num_cores" = "many"', '"num_cores" = "many": not a whole number'),
        ('"num_cores" = 0 : i32', "cores: 0 is not from 1 to 10000"),
        ('"max_vector_op_width" = 64 : i32', "vector_bits: 64 is not one of 128, 256, 512"),
        ('"L1_cache_size_in_bytes" = 100 : i32', "L1.size: 100 is not a multiple of 12 ways"),
        ('"L1_cache_size_in_bytes" = 4194304 : i32', "L2.size: 1048576 is not larger than L1's"),
    ],
)
def test_an_impossible_target_is_an_error_with_a_way_out(entry: str, message: str) -> None:
    with pytest.raises(UserError) as refusal:
        resolve("auto", parsed("mlir", spec(entry)))
    assert "the target attributes of the module do not describe a machine: " in str(refusal.value)
    assert message in str(refusal.value)
    assert "name a machine, e.g. machine=host" in str(refusal.value)


def test_the_passes_plan_for_the_target_of_the_module(package: str) -> None:
    module = parsed(package, spec('"max_vector_op_width" = 256 : i32'), CONV)
    manager = import_module(f"{package}.passmanager")
    with module.context:
        pipeline = manager.PassManager("builtin.module")
        add_passes(pipeline, "mopt-analyze", "mopt-tile")
        pipeline.run(module)
    assert "vector<8xf32>" in str(module)
    assert "vector<16xf32>" not in str(module)


@pytest.mark.parametrize(("tool", "argv"), [(main, ["--mopt-tile"]), (plan_main, [])])
def test_the_error_stands_at_the_module(
    tool: Callable[[list[str]], int],
    argv: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = tmp_path / "bad.mlir"
    attributes = spec('"num_cores" = 0 : i32')
    source.write_text(f"module attributes {{{attributes}}} {{{CONV}}}")
    assert tool([*argv, str(source)]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"{source}:1:1: error: the target attributes of the module do not")
    assert "Traceback" not in errors
