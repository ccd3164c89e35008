"""Contents of resources, read back from modules of the same bytes in text."""

from __future__ import annotations

import numpy as np
import pytest

from mopt_mlir.bindings import bindings
from mopt_mlir.linalg.resources import resource_bytes

MODULE = """
"any.operation"() {{value = dense_resource<contents> : tensor<{count}xi8>}} : () -> ()
{{-# dialect_resources: {{ builtin: {{ {contents} }} }} #-}}
"""


def read(contents: str, count: int, package: str = "mlir") -> bytes | None:
    some = bindings(package)
    with some.ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = some.ir.Module.parse(MODULE.format(contents=contents, count=count))
        found = resource_bytes(module.body.operations[0].attributes["value"], some)
        return None if found is None else bytes(found)


@pytest.mark.parametrize("alignment", [1, 4, 64, 4096])
@pytest.mark.parametrize("count", [1, 63, 64, 127, 128, 8191, 8192, 16_383, 16_384, 3_000_000])
def test_the_bytes_are_those_of_the_module(count, alignment):
    expected = np.random.default_rng(count).bytes(count)
    contents = f'contents: "0x{alignment.to_bytes(4, "little").hex()}{expected.hex()}"'
    assert read(contents, count) == expected


def test_the_bindings_of_torch_mlir():
    pytest.importorskip("torch_mlir.ir")
    assert read('contents: "0x0400000001020304"', 4, "torch_mlir") == bytes([1, 2, 3, 4])


def test_bytes_that_the_module_lacks():
    assert read("", 4) is None


def test_other_resources_are_not_mistaken_for_it():
    others = 'a: "0x0400000001020304", contents: "0x0400000005060708", z: "0x040000000900"'
    assert read(others, 4) == bytes([5, 6, 7, 8])
