"""Compile MLIR to files: shared library, object, assembly, LLVM IR, LLVM dialect, C header."""

from __future__ import annotations

import os
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from mopt_mlir.compiler.compilation import lower_source
from mopt_mlir.compiler.lowered import keep_demands
from mopt_mlir.diagnostics import UserError, emit
from mopt_mlir.lowering.constants import take_constants
from mopt_mlir.lowering.header import header_text
from mopt_mlir.lowering.link import check_compiler, link_shared
from mopt_mlir.lowering.native import compile_module
from mopt_mlir.output import check_output, write_output

if TYPE_CHECKING:
    from mopt_mlir.compiler.lowered import LoweredModule
    from mopt_mlir.compiler.options import CompileOptions
    from mopt_mlir.lowering.target import Target

SUFFIXES = {
    ".so": "shared library",
    ".o": "object file",
    ".s": "assembly",
    ".ll": "LLVM IR",
    ".mlir": "MLIR's LLVM dialect",
}
"""What a suffix of the output stands for."""


def compile_to_file(
    source: Any,
    output: str | PathLike[str],
    options: CompileOptions,
    *,
    header: str | PathLike[str] | None = None,
) -> None:
    """Compile `source` and write what the suffix of `output` stands for; see SUFFIXES.

    `header` is where to write C declarations of the functions. Without `options.cpu` instructions
    are selected for the CPU of the machine. Raises UserError, before any file is touched unless
    writing itself fails; each file is replaced at one stroke.
    """
    name = fspath(output)
    suffix = os.path.splitext(name)[1]
    if suffix not in SUFFIXES:
        known = ", ".join(f"{known} ({what})" for known, what in SUFFIXES.items())
        raise UserError(f"'{name}' has none of the known suffixes: {known}")
    check_output(name)
    if header is not None:
        check_output(header)
        if os.path.realpath(header) == os.path.realpath(name):
            raise UserError("the header would overwrite the output; give it another name", name)
    if suffix == ".so":
        check_compiler()  # before anything is planned
    target = options.target_of_files()
    lowered = lower_source(source, options, target)
    if not lowered.entries:
        emit("warning", "", "there is no public function: nothing in the output can be called")
    data = _artifact(lowered, suffix, target)
    write_output(name, data)
    if header is not None:
        declarations = header_text(lowered.entries, os.path.basename(fspath(header)))
        write_output(header, declarations.encode())


def _artifact(lowered: LoweredModule, suffix: str, target: Target) -> bytes:
    if suffix == ".mlir":
        keep_demands(lowered)
        return f"{lowered.module}\n".encode()
    constants = take_constants(lowered.module)
    native = compile_module(lowered.module, target, [e.symbol for e in lowered.entries])
    for symbol, constant in constants.items():
        native.define(symbol, *constant)
    if suffix == ".ll":
        return native.ir().encode()
    if suffix == ".s":
        return native.assembly().encode()
    return native.object() if suffix == ".o" else link_shared(native)
