"""The peers by name. Their modules are loaded in worker processes, where their libraries are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from ..protocol import Protocol
from .interface import Peer

OURS = "mopt"
BEST_OF_5 = "mopt-5"

_ALL = tuple(Protocol)
_NCHW = (Protocol.PAPER, Protocol.CONSTANT_WEIGHTS)


@dataclass(frozen=True)
class Entry:
    """Where a peer is defined and what it can be measured with."""

    module: str
    title: str
    """For reports."""
    setup: str
    """How it is run, in a sentence."""
    protocols: tuple[Protocol, ...] = _ALL
    own: bool = False
    """Whether it runs in the compiler's Python, not where `make bench-peers` installed the others.
    """
    default: bool = True
    """Whether it takes part unless others are named."""
    limits_isa: bool = False
    """Whether it can be limited to AVX2."""
    is_rival: bool = True
    """Whether it is a library that ours is compared with, not a variant of ours."""
    most_runs: int | None = None
    """Of an operator, where more would take minutes and say no more."""


REGISTRY: Mapping[str, Entry] = {
    OURS: Entry(
        "mopt",
        "mopt-mlir",
        "This project: one plan from the model, nothing measured at compile time.",
        own=True,
        limits_isa=True,
        is_rival=False,
    ),
    BEST_OF_5: Entry(
        "mopt",
        "mopt-mlir, best of 5",
        "This project with `candidates=5`: the model's best plan and four others close to it, "
        "measured once at compile time, with cold caches.",
        own=True,
        limits_isa=True,
        is_rival=False,
    ),
    "onednn": Entry(
        "onednn",
        "oneDNN",
        "Primitives with `format_tag::any`, direct algorithm. Class A times all reorders, B those "
        "of the images, C none: there oneDNN keeps its own blocked layouts.",
        limits_isa=True,
    ),
    "torch": Entry(
        "pytorch",
        "PyTorch",
        "Inference mode. Class A is `conv2d` on plain tensors; B and C use weights prepacked by "
        "its oneDNN backend, C images in `channels_last`.",
        limits_isa=True,
    ),
    "onnxruntime": Entry(
        "onnxruntime",
        "ONNX Runtime",
        "I/O binding, all graph optimisations, sequential execution. Class B has the weights as an "
        "initializer, A as an input. It has no NHWC convolution in f32, so none in class C.",
        protocols=_NCHW,
    ),
    "openvino": Entry(
        "openvino",
        "OpenVINO",
        "Latency hint, one stream, f32 precision, tensors set once. Class C has transpositions "
        "around the convolution in the model, for the compiler to remove.",
    ),
    "iree": Entry(
        "iree",
        "IREE",
        "llvm-cpu for the host, O3, im2col, data tiling, constants evaluated at compile time; "
        "`local-sync` on one core, `local-task` on several.",
    ),
    "tvm": Entry(
        "tvm",
        "TVM",
        "MetaSchedule, 64 trials for each operator on this machine. Weights stay as they are, so "
        "there is no class B.",
        protocols=(Protocol.PAPER, Protocol.NHWC),
        default=False,
    ),
    "mlir": Entry(
        "mlir",
        "MLIR default",
        "The same lowering as ours without tiling: linalg's plain loops, parallel ones on several "
        "cores. Three runs, as it is so much slower.",
        own=True,
        limits_isa=True,
        most_runs=3,
    ),
}


def load(name: str) -> Peer:
    """The peer `name`, ready to prepare. Raises UnavailableError if it is not installed here."""
    peer: Peer = import_module(f".{REGISTRY[name].module}", __name__).create(name)
    return peer
