"""ONNX Runtime's CPU provider on a model of one Conv."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..workloads import aligned
from .interface import Prepared, Task, UnavailableError

_OPSET = 18
_IR_VERSION = 10


def create(name: str) -> OnnxRuntime:
    return OnnxRuntime()


class OnnxRuntime:
    def __init__(self) -> None:
        try:
            import onnx
            import onnxruntime
        except ImportError as error:
            raise UnavailableError(str(error)) from None
        self._onnx, self._runtime = onnx, onnxruntime

    @property
    def version(self) -> str:
        return str(self._runtime.__version__)

    def prepare(self, task: Task) -> Prepared:
        constant = task.configuration.protocol.constant_weights
        runtime = self._runtime
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = task.configuration.threads
        options.inter_op_num_threads = 1
        session = runtime.InferenceSession(
            self._model(task, constant), options, providers=["CPUExecutionProvider"]
        )
        output = aligned(task.workload.output_shape, np.float32)
        output[...] = np.nan
        arrays = {"input": task.input, "output": output}
        if not constant:
            arrays["weights"] = task.weights
        binding = session.io_binding()
        for name, array in arrays.items():
            bind = binding.bind_output if name == "output" else binding.bind_input
            bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

        def run() -> None:
            session.run_with_iobinding(binding)

        return Prepared(run, lambda: output)

    def _model(self, task: Task, constant: bool) -> bytes:
        """The serialised model; with `constant` the weights are inside."""
        helper, float_ = self._onnx.helper, self._onnx.TensorProto.FLOAT
        workload = task.workload

        def value(name: str, shape: tuple[int, ...]) -> Any:
            return helper.make_tensor_value_info(name, float_, shape)

        convolution = helper.make_node(
            "Conv",
            ["input", "weights"],
            ["output"],
            strides=workload.strides,
            dilations=workload.dilations,
            kernel_shape=(workload.r, workload.s),
        )
        weights = value("weights", workload.weights_shape)
        graph = helper.make_graph(
            [convolution],
            workload.name,
            [value("input", workload.input_shape), *([] if constant else [weights])],
            [value("output", workload.output_shape)],
            [self._onnx.numpy_helper.from_array(task.weights, "weights")] if constant else [],
        )
        imports = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
        data: bytes = model.SerializeToString()
        return data
