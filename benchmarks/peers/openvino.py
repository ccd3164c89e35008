"""OpenVINO's CPU plugin on a model of one convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..protocol import Protocol
from ..workloads import aligned
from .interface import Prepared, Task, UnavailableError

_TO_NCHW, _TO_NHWC, _TO_KCRS = (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 0, 1)


def create(name: str) -> OpenVino:
    return OpenVino()


class OpenVino:
    def __init__(self) -> None:
        try:
            import openvino
        except ImportError as error:
            raise UnavailableError(str(error)) from None
        self._openvino = openvino
        self._core = openvino.Core()

    @property
    def version(self) -> str:
        return str(self._openvino.__version__).split("-")[0]

    def prepare(self, task: Task) -> Prepared:
        tensor = self._openvino.Tensor
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": task.configuration.threads,
            "INFERENCE_PRECISION_HINT": "f32",  # bf16 where the CPU has it otherwise
        }
        model, inputs = self._model(task)
        request = self._core.compile_model(model, "CPU", settings).create_infer_request()
        output = aligned(task.workload.output_shape, np.float32)
        output[...] = np.nan
        for index, array in enumerate(inputs):
            request.set_input_tensor(index, tensor(array, shared_memory=True))
        request.set_output_tensor(0, tensor(output, shared_memory=True))

        def run() -> None:
            request.infer(share_outputs=True)

        return Prepared(run, lambda: output)

    def _model(self, task: Task) -> tuple[Any, list[Any]]:
        """The model, and the arrays to set as its inputs."""
        from openvino import opset13 as ops

        workload, protocol = task.workload, task.configuration.protocol
        inputs = [task.input]
        image = parameter = ops.parameter(list(workload.input_shape), np.float32)
        parameters = [parameter]
        if protocol is Protocol.PAPER:
            weights = ops.parameter(list(workload.weights_shape), np.float32)
            parameters.append(weights)
            inputs.append(task.weights)
        elif protocol is Protocol.CONSTANT_WEIGHTS:
            weights = ops.constant(task.weights)
        else:
            weights = ops.constant(np.ascontiguousarray(task.weights.transpose(_TO_KCRS)))
            image = ops.transpose(parameter, ops.constant(np.array(_TO_NCHW)))
        result = ops.convolution(
            image, weights, list(workload.strides), [0, 0], [0, 0], list(workload.dilations)
        )
        if protocol is Protocol.NHWC:
            result = ops.transpose(result, ops.constant(np.array(_TO_NHWC)))
        return self._openvino.Model([result], parameters), inputs
