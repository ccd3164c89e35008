"""PyTorch on the CPU, whose convolutions are those of its own oneDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol import Protocol
from ..timing import time_runs
from ..workloads import Array
from .interface import Prepared, Task, UnavailableError

_TRIALS = 5  # runs of each way to use packed weights, to take the faster one
_WARM_UP = 2


def create(name: str) -> PyTorch:
    return PyTorch()


class PyTorch:
    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise UnavailableError(str(error)) from None
        self._torch = torch

    @property
    def version(self) -> str:
        return str(self._torch.__version__)

    def prepare(self, task: Task) -> Prepared:
        torch = self._torch
        torch.set_num_threads(task.configuration.threads)
        torch.set_grad_enabled(False)
        protocol = task.configuration.protocol
        nhwc = protocol is Protocol.NHWC
        image, weights = torch.from_numpy(task.input), torch.from_numpy(task.weights)
        if nhwc:  # what NHWC memory is to PyTorch: a channels_last tensor
            image, weights = image.permute(0, 3, 1, 2), weights.permute(3, 2, 0, 1)
        if protocol is Protocol.PAPER:
            name, convolve = "conv2d", self._plain(task, image, weights)
        else:
            ways = self._packed(task, image, weights.contiguous(), nhwc)
            name = min(ways, key=lambda way: _fastest(ways[way], task))
            convolve = ways[name]
        result: list[Any] = [None]

        def run() -> None:
            result[0] = convolve()

        def output() -> Array:
            tensor = result[0].permute(0, 2, 3, 1) if nhwc else result[0]
            if not tensor.is_contiguous():
                raise UnavailableError("PyTorch returned its result in another layout")
            array: Array = tensor.numpy()
            return array

        return Prepared(run, output, name)

    def _plain(self, task: Task, image: Any, weights: Any) -> Callable[[], Any]:
        strides, dilations = task.workload.strides, task.workload.dilations
        convolve = self._torch.conv2d
        return lambda: convolve(image, weights, None, strides, (0, 0), dilations)

    def _packed(
        self, task: Task, image: Any, weights: Any, nhwc: bool
    ) -> dict[str, Callable[[], Any]]:
        """The ways to convolve with weights that oneDNN has packed beforehand, each with a result
        in the layout of the image; which is the faster one depends on the operator."""
        torch = self._torch
        operations = torch.ops.mkldnn
        geometry = (0, 0), task.workload.strides, task.workload.dilations, 1
        packed = operations._reorder_convolution_weight(weights, *geometry, image.shape)
        pointwise = operations._convolution_pointwise.default

        def channels_last() -> Any:  # what it returns is channels_last, whatever it is given
            return pointwise(image, packed, None, *geometry, "none", [], "")

        if nhwc:
            return {"channels_last": channels_last}
        blocked = torch._C._nn.mkldnn_reorder_conv2d_weight(
            weights.to_mkldnn(), *geometry, image.shape
        )

        def through_blocked() -> Any:
            result = torch.mkldnn_convolution(image.to_mkldnn(), blocked, None, *geometry)
            return result.to_dense()

        return {
            "channels_last": lambda: channels_last().contiguous(),
            "blocked": through_blocked,
        }


def _fastest(run: Callable[[], Any], task: Task) -> float:
    """Seconds of the fastest of some runs, with caches as they are measured."""
    return min(time_runs(run, _TRIALS, _WARM_UP, task.flush))
