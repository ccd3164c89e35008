"""IREE: the operator as linalg on tensors through its own compiler and runtime."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from ..workloads import Array, Workload
from .interface import Prepared, Task, UnavailableError

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    "--iree-opt-data-tiling",
    "--iree-global-opt-use-im2col-for-convs",
    "--iree-opt-const-eval",
    "--iree-opt-const-expr-max-size-increase-threshold=1073741824",
)


_SPIN_MICROSECONDS = 100_000
"""How long workers wait spinning, as OpenMP's threads do for all peers: longer than caches take to
be flushed."""


def create(name: str) -> Iree:
    return Iree()


class Iree:
    def __init__(self) -> None:
        try:
            from iree import compiler, runtime
        except ImportError as error:
            raise UnavailableError(str(error)) from None
        self._compiler, self._runtime = compiler, runtime

    @property
    def version(self) -> str:
        return metadata.version("iree-base-compiler")

    def prepare(self, task: Task) -> Prepared:
        runtime, configuration = self._runtime, task.configuration
        constant = task.weights if configuration.protocol.constant_weights else None
        code = self._compiler.compile_str(
            tensor_mlir(task.workload, constant), extra_args=list(FLAGS)
        )
        device = self._device(configuration.threads)
        instance = runtime.VmInstance()
        module = runtime.VmModule.copy_buffer(instance, code)
        hal = runtime.create_hal_module(instance, device)
        context = runtime.VmContext(instance, [hal, module])
        function = module.lookup_function("conv")
        arguments = runtime.VmVariantList(2)
        for array in (task.input, *([] if constant is not None else [task.weights])):
            arguments.push_ref(self._buffer_view(device, array))
        results: list[Any] = [None]

        def run() -> None:
            outputs = runtime.VmVariantList(1)
            context.invoke(function, arguments, outputs)
            results[0] = outputs

        def output() -> Array:
            view = results[0].get_as_object(0, runtime.HalBufferView)
            array: Array = runtime.DeviceArray(device, view, implicit_host_transfer=True).to_host()
            return array

        return Prepared(run, output)

    def _device(self, threads: int) -> Any:
        runtime = self._runtime
        if threads == 1:
            return runtime.get_device("local-sync")
        runtime.flags.parse_flags(
            f"--task_topology_group_count={threads}",
            f"--task_worker_spin_us={_SPIN_MICROSECONDS}",
        )
        return runtime.get_device("local-task")

    def _buffer_view(self, device: Any, array: Array) -> Any:
        runtime = self._runtime
        return device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT | runtime.BufferUsage.MAPPING,
            device=device,
            buffer=array,
            element_type=runtime.HalElementType.FLOAT_32,
        )


def tensor_mlir(workload: Workload, constant: Array | None) -> str:
    """`func.func @conv(input, weights) -> output` on tensors; `(input)` with constant weights."""
    input_, weights, output = (
        f"tensor<{'x'.join(map(str, shape))}x{workload.element}>"
        for shape in (workload.input_shape, workload.weights_shape, workload.output_shape)
    )
    parameters = f"%input: {input_}"
    definition, resources = "", ""
    if constant is None:
        parameters += f", %weights: {weights}"
    else:
        definition = f"%weights = arith.constant dense_resource<weights> : {weights}\n  "
        data = f"0x04000000{constant.tobytes().hex()}"
        resources = f'{{-# dialect_resources: {{builtin: {{weights: "{data}"}}}} #-}}\n'
    return f"""func.func @conv({parameters}) -> {output} {{
  {definition}%zero = arith.constant 0.0 : {workload.element}
  %empty = tensor.empty() : {output}
  %init = linalg.fill ins(%zero : {workload.element}) outs(%empty : {output}) -> {output}
  %result = linalg.conv_2d_{workload.layout} {{
      strides = dense<{list(workload.strides)}> : tensor<2xi64>,
      dilations = dense<{list(workload.dilations)}> : tensor<2xi64>}}
      ins(%input, %weights : {input_}, {weights}) outs(%init : {output}) -> {output}
  return %result : {output}
}}
{resources}"""
