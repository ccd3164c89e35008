"""From a source to a module of the LLVM dialect: what running and writing files share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from mopt_mlir.bindings import bindings, bindings_of
from mopt_mlir.diagnostics import (
    NOT_TILED,
    Diagnostic,
    Failure,
    UserError,
    collected_from,
    current_sink,
    sink,
)
from mopt_mlir.pass_base import Pass

if TYPE_CHECKING:
    from mopt_mlir.compile_options import CompileOptions
    from mopt_mlir.lowering.entries import Entry
    from mopt_mlir.lowering.requirements import Requirement
    from mopt_mlir.lowering.target import Target

_UPSTREAM = "mlir"
_VALUE_NAME = re.compile(rb"%([A-Za-z_$.-][A-Za-z0-9_$.-]*)")


@dataclass(frozen=True)
class LoweredModule:
    """A module of the LLVM dialect, the functions that can be called in it, and by name what these
    demand of the sizes that their types leave open."""

    module: Any
    entries: tuple[Entry, ...]
    requirements: Mapping[str, tuple[Requirement, ...]]


def lower_source(source: Any, options: CompileOptions, target: Target) -> LoweredModule:
    """Tile the convolutions of `source` and lower all of it to the LLVM dialect.

    `source` is a path, MLIR text, bytecode, a `source.Source`, or a module of any MLIR Python
    bindings, which is not changed. `target` is what code will be generated for. Raises UserError.
    """
    first = options.first_passes()
    if isinstance(first, Pass):
        first.check()  # a wrong name is not a mistake in the source
    with errors_raised():
        module = load_module(source)
        options.compare_vectors(target, module)
        if options.candidates > 1:
            from mopt_mlir.choosing import choose_plans

            choose_plans(module, options, target)
        return lower_module(module, options)


def lower_module(module: Any, options: CompileOptions) -> LoweredModule:
    """The second half of `lower_source`, in place.

    Raises UserError, or Failure after diagnostics.
    """
    from mopt_mlir.lowering.entries import entry_functions, read_entry
    from mopt_mlir.lowering.func_ops import functions_of, name_of
    from mopt_mlir.lowering.requirements import requirements
    from mopt_mlir.pass_registry import create

    demands = {name_of(f): requirements(f) for f in functions_of(module)}
    with _fallback_reported(options.require_tiled):
        run_passes(module, options.first_passes())
    run_passes(module, create("mopt-lower-to-llvm", threads=options.threads))
    entries = tuple(map(read_entry, entry_functions(module)))
    return LoweredModule(module, entries, {e.name: demands.get(e.name, ()) for e in entries})


def load_module(source: Any) -> Any:
    """The `source` of `lower_source` as a `builtin.module` of our own, in a context of the upstream
    bindings. Raises UserError, or Failure after diagnostics."""
    from mopt_mlir.decomposition import decompose
    from mopt_mlir.source import Source, parse, read

    if isinstance(source, Source):
        text = source
    elif isinstance(source, PathLike) or (isinstance(source, str) and not _is_text(source)):
        text = read(fspath(source))
    elif isinstance(source, str):
        text = Source("<text>", source.encode())
    elif isinstance(source, bytes):
        text = Source("<text>", source)
    else:
        text = _source_of_module(source)
    module = parse(text, bindings(_UPSTREAM).ir.Context()).operation
    _name_parameters(module, text.lines)
    decompose(module)
    return module


def keep_only(name: str, module: Any) -> None:
    """Erase what the public function `name` does not need; nothing if there is no such function."""
    from mopt_mlir.lowering.func_ops import VISIBILITY, functions_of, is_public, name_of

    public = [function for function in functions_of(module) if is_public(function)]
    if name not in map(name_of, public):
        return
    private = bindings_of(module).ir.StringAttr.get("private", module.context)
    for function in public:
        if name_of(function) != name:
            function.attributes[VISIBILITY] = private
    run_passes(module, "symbol-dce")


def _is_text(source: str) -> bool:
    """Whether `source` is MLIR text rather than a path: paths have neither lines nor braces."""
    return "\n" in source or "{" in source


def _source_of_module(source: Any) -> Any:
    from mopt_mlir.source import Source

    try:
        bindings_of(source)
        operation = source.operation
    except (TypeError, AttributeError):
        kind = type(source).__name__
        raise TypeError(f"a source is a path, MLIR text or a module, not {kind}") from None
    if operation.name != "builtin.module":
        raise TypeError(f"a source module is a builtin.module, not a {operation.name}")
    text = operation.get_asm(enable_debug_info=True)
    return Source("<module>", text.encode())


def _name_parameters(module: Any, lines: list[str]) -> None:
    """Name the parameters of functions as the text does: the parser forgets the names, but not
    where they stand."""
    from mopt_mlir.diagnostics import kind_of
    from mopt_mlir.lowering.entries import NAME
    from mopt_mlir.lowering.func_ops import (
        argument_attributes,
        functions_of,
        set_argument_attributes,
    )

    ir = bindings_of(module).ir
    for function in functions_of(module):
        attributes = argument_attributes(function)
        for argument, known in zip(
            function.regions[0].blocks[0].arguments, attributes, strict=True
        ):
            location = argument.location
            if kind_of(location) != "file" or not 0 < location.start_line <= len(lines):
                continue
            line = lines[location.start_line - 1].encode()  # columns count bytes
            if match := _VALUE_NAME.match(line, location.start_col - 1):
                name = match[1].decode()
                known.setdefault(NAME, ir.StringAttr.get(name, module.context))
        set_argument_attributes(function, attributes)


def run_passes(module: Any, passes: str | Pass) -> None:
    """Run passes on a module; diagnostics go to the sink. Raises Failure or UserError."""
    from mopt_mlir.pipeline import MODULE, add_passes

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


@contextmanager
def _fallback_reported(is_error: bool) -> Iterator[None]:
    """Make warnings, or one error, of the remarks on operations that are not tiled."""
    outer = current_sink()
    refused: list[Diagnostic] = []

    def handle(diagnostic: Diagnostic) -> None:
        if diagnostic.topic != NOT_TILED:
            outer(diagnostic)
        elif is_error:
            refused.append(diagnostic)
        else:
            message = f"{diagnostic.message}; it becomes plain loops"
            outer(replace(diagnostic, severity="warning", message=message))

    with sink(handle):
        yield
    if refused:
        first = refused[0]
        raise UserError(f"{first.message}, but require-tiled was given", first.location)
