"""Sources as modules of our own, and passes that run on these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from os.path import exists
from typing import Any

from mopt_mlir.bindings import bindings, bindings_of
from mopt_mlir.diagnostics import (
    Diagnostic,
    Failure,
    UserError,
    collected_from,
    current_sink,
    file_of,
    kind_of,
    sink,
)
from mopt_mlir.func_ops import (
    PARAMETER_NAME,
    VISIBILITY,
    argument_attributes,
    functions_of,
    name_of,
    public_functions,
    set_argument_attributes,
)
from mopt_mlir.linalg.decomposition import decompose
from mopt_mlir.pipeline.pass_base import Pass
from mopt_mlir.pipeline.source import Source, parse, read
from mopt_mlir.pipeline.steps import MODULE, add_passes

_UPSTREAM = "mlir"
_MODULE = "<module>"
_JSON = re.compile(rb'\s*(\[|\{\s*")')
_VALUE_NAME = re.compile(rb"%([A-Za-z_$.-][A-Za-z0-9_$.-]*)")


def load_module(source: Any) -> Any:
    """`source` as a `builtin.module` of our own, in a context of the upstream bindings.

    It is a path, MLIR text, bytecode, a `Source`, or a module of any MLIR Python bindings, which is
    not changed. Raises UserError, or Failure after diagnostics.
    """
    if isinstance(source, Source):
        text = source
    elif isinstance(source, PathLike) or (isinstance(source, str) and not _is_text(source)):
        text = read(fspath(source))
    elif isinstance(source, str):
        try:
            text = Source("<text>", source.encode())
        except UnicodeEncodeError as error:
            raise UserError(f"the text is not Unicode: {error.reason}", "<text>") from None
    elif isinstance(source, bytes):
        text = Source("<text>", source)
    else:
        text = _source_of_module(source)
    if _JSON.match(text.data):
        raise UserError(
            "this is JSON, not MLIR; of a list of operators the name has to end in .json", text.name
        )
    module = parse(text, bindings(_UPSTREAM).ir.Context()).operation
    if text.name != _MODULE:  # whose locations are in what it was made from
        _name_parameters(module, text)
    decompose(module)
    return module


def keep_only(name: str, module: Any) -> None:
    """Erase what the public function `name` does not need; nothing if there is no such function."""
    public = public_functions(module)
    if name not in map(name_of, public):
        return
    private = bindings_of(module).ir.StringAttr.get("private", module.context)
    for function in public:
        if name_of(function) != name:
            function.attributes[VISIBILITY] = private
    run_passes(module, "symbol-dce")


def run_passes(module: Any, passes: str | Pass) -> None:
    """Run passes on a module; diagnostics go to the sink. Raises Failure or UserError."""
    own = bindings_of(module)
    with module.context as context, collected_from(context):
        manager = own.passmanager.PassManager(MODULE, context=context)
        add_passes(manager, passes)
        try:
            manager.run(module)
        except own.ir.MLIRError:
            raise Failure(f"{passes} failed") from None


@contextmanager
def errors_raised() -> Iterator[None]:
    """Raise the errors among the diagnostics as one UserError; pass the others on."""
    outer = current_sink()
    errors: list[Diagnostic] = []

    def handle(diagnostic: Diagnostic) -> None:
        if diagnostic.severity == "error" or (errors and diagnostic.severity == "note"):
            errors.append(diagnostic)
        else:
            outer(diagnostic)

    try:
        with sink(handle):
            yield
    except Failure as failure:
        if not errors:
            raise UserError(str(failure)) from None
        first, *others = errors
        message = "\n".join([first.message, *map(str, others)])
        raise UserError(message, first.location) from None


def _is_text(source: str) -> bool:
    """Whether `source` is MLIR text rather than a path: these have no lines, and no braces unless
    there is such a file, or one is meant."""
    if "\n" in source:
        return True
    return "{" in source and not source.endswith((".mlir", ".mlirbc")) and not exists(source)


def _source_of_module(source: Any) -> Any:
    try:
        bindings_of(source)
        operation = source.operation
    except (TypeError, AttributeError):
        kind = type(source).__name__
        raise TypeError(f"a source is a path, MLIR text or a module, not {kind}") from None
    if operation.name != "builtin.module":
        raise TypeError(f"a source module is a builtin.module, not a {operation.name}")
    if operation.parent is not None:  # of a part of another module MLIR prints no resources
        operation = operation.clone(ip=False)
    text = operation.get_asm(enable_debug_info=True)
    return Source(_MODULE, text.encode())


def _name_parameters(module: Any, text: Source) -> None:
    """Name the parameters of functions as the text does: the parser forgets the names, but not
    where they stand."""
    ir, lines = bindings_of(module).ir, text.lines
    for function in functions_of(module):
        attributes = argument_attributes(function)
        for argument, known in zip(
            function.regions[0].blocks[0].arguments, attributes, strict=True
        ):
            location = argument.location
            if kind_of(location) != "file" or file_of(location) != text.name:
                continue
            if not 0 < location.start_line <= len(lines):
                continue
            line = lines[location.start_line - 1].encode()  # columns count bytes
            if match := _VALUE_NAME.match(line, location.start_col - 1):
                name = match[1].decode()
                known.setdefault(PARAMETER_NAME, ir.StringAttr.get(name, module.context))
        set_argument_attributes(function, attributes)
