"""What mopt-opt does with a source: parse, run a pipeline, print; chunk by chunk."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mopt_mlir.bindings import bindings
from mopt_mlir.diagnostics import (
    Diagnostic,
    Failure,
    Sink,
    UserError,
    collected_from,
    current_sink,
    emit,
    sink,
    to_stderr,
)
from mopt_mlir.pipeline.options import option
from mopt_mlir.pipeline.source import SPLIT_MARKER, Source, parse
from mopt_mlir.pipeline.steps import MODULE, Step, add_steps
from mopt_mlir.pipeline.verify_diagnostics import verify

_LONGEST_EXCERPT = 400  # characters; a line with a large constant says nothing to a reader


@dataclass(frozen=True)
class Settings:
    """How to run and print; each field is a flag of mopt-opt of the same name."""

    split_input_file: str = option(
        "", f"process the parts between lines that are '{SPLIT_MARKER}'", bare=SPLIT_MARKER
    )
    verify_diagnostics: str = option(
        "",
        "succeed if the diagnostics are those of the 'expected-*' comments; "
        "with =only-expected, let others pass",
        bare="all",
    )
    verify_each: bool = option(True, "verify the IR after each pass")
    allow_unregistered_dialect: bool = option(False, "accept operations of unknown dialects")
    dump_pass_pipeline: bool = option(False, "print the pipeline to stderr before it runs")
    emit_bytecode: bool = option(False, "write bytecode instead of text")
    mlir_disable_threading: bool = option(False, "run passes on one thread")
    mlir_timing: bool = option(False, "print the time that each pass took to stderr")
    mlir_pass_statistics: bool = option(False, "print the statistics of each pass to stderr")
    mlir_print_ir_before_all: bool = option(False, "print the IR to stderr before each pass")
    mlir_print_ir_after_all: bool = option(False, "print the IR to stderr after each pass")
    mlir_print_ir_after_change: bool = option(
        False, "print the IR to stderr after each pass that changed it"
    )
    mlir_print_ir_after_failure: bool = option(
        False, "print the IR to stderr after a pass that failed"
    )
    mlir_print_ir_module_scope: bool = option(
        False, "print the whole module where a pass ran on a part of it"
    )
    mlir_print_ir_tree_dir: str = option(
        "", "print the IR into a tree of files in this directory instead"
    )
    mlir_print_debuginfo: bool = option(False, "print locations")
    mlir_pretty_debuginfo: bool = option(False, "print locations for people; does not parse")
    mlir_print_local_scope: bool = option(False, "print without aliases")
    mlir_print_op_generic: bool = option(False, "print operations in the generic form")
    mlir_use_nameloc_as_prefix: bool = option(True, "name values after their locations")
    mlir_elide_elementsattrs_if_larger: int = option(
        -1, "print '...' for constants of more elements than this"
    )
    mlir_elide_resource_strings_if_larger: int = option(
        -1, "print '...' for resources of more characters than this"
    )

    @property
    def prints_ir(self) -> bool:
        return self.mlir_print_ir_before_all or self.prints_ir_after

    @property
    def prints_ir_after(self) -> bool:
        return (
            self.mlir_print_ir_after_all
            or self.mlir_print_ir_after_change
            or self.mlir_print_ir_after_failure
        )


class Driver:
    """Runs one pipeline on sources, with the upstream bindings."""

    def __init__(
        self, steps: Iterable[Step] = (), settings: Settings = Settings(), anchor: str = MODULE
    ) -> None:
        """Raises UserError for what is wrong with `steps` or `settings`."""
        _check(settings)
        self.settings = settings
        self.context = _make_context(settings)
        self.manager = bindings().passmanager.PassManager(anchor, context=self.context)
        add_steps(self.manager, steps)
        _configure(self.manager, settings)

    def run(self, source: Source) -> bytes:
        """The text or bytecode that results. Diagnostics are printed to stderr.

        Raises Failure, after all chunks were tried, if one of them failed.
        """
        marker = self.settings.split_input_file
        chunks = list(source.chunks(marker)) if marker else [source]
        process = self._verified if self.settings.verify_diagnostics else self._processed
        results = [process(chunk) for chunk in chunks]
        done = [result for result in results if result is not None]
        if len(done) < len(results):
            raise Failure(f"{source.name} failed")
        return os.fsencode(f"{marker}\n").join(done)

    def _processed(self, chunk: Source) -> bytes | None:
        """The printed result; None if `chunk` failed, which has been said by then."""
        with sink(printer(chunk)):
            try:
                return self._run(chunk)
            except Failure:
                return None

    def _verified(self, chunk: Source) -> bytes | None:
        """As `_processed`, but to fail is to give other diagnostics than `chunk` expects."""
        diagnostics: list[Diagnostic] = []
        result = b""
        with sink(diagnostics.append), suppress(Failure):
            result = self._run(chunk)
        only_expected = self.settings.verify_diagnostics == "only-expected"
        errors = verify(chunk, diagnostics, only_expected=only_expected)
        for error in errors:
            printer(chunk)(error)
        return None if errors else result

    def _run(self, chunk: Source) -> bytes:
        module = parse(chunk, self.context)
        outer = current_sink()
        errors = 0

        def count(diagnostic: Diagnostic) -> None:
            nonlocal errors
            errors += diagnostic.severity == "error"
            outer(diagnostic)

        try:
            with sink(count), collected_from(self.context):
                self.manager.run(module.operation)
        except bindings().ir.MLIRError:
            if not errors:
                message = "a pass failed without a message; see --mlir-print-ir-after-failure"
                emit("error", module.operation.location, message)
            raise Failure(f"{chunk.name} failed") from None
        return _printed(module.operation, self.settings)


def printer(source: Source) -> Sink:
    """A sink that prints to stderr, with the line of `source` that a diagnostic speaks of."""
    lines = source.lines

    def show(diagnostic: Diagnostic) -> None:
        to_stderr(f"{diagnostic}{_excerpt(diagnostic, source, lines)}")

    return show


def _check(settings: Settings) -> None:
    if settings.verify_diagnostics not in ("", "all", "only-expected"):
        way_out = "'all' and 'only-expected' exist"
        raise UserError(f"verify-diagnostics='{settings.verify_diagnostics}': only {way_out}")
    if settings.split_input_file and settings.emit_bytecode:
        raise UserError("--emit-bytecode writes one module; it excludes --split-input-file")
    if settings.mlir_print_ir_tree_dir and not settings.prints_ir:
        raise UserError(
            "--mlir-print-ir-tree-dir says where IR goes, but nothing prints any; "
            "add --mlir-print-ir-after-all or the like"
        )


def _make_context(settings: Settings) -> Any:
    context = bindings().ir.Context()
    context.allow_unregistered_dialects = settings.allow_unregistered_dialect
    # MLIR prints IR from one thread only.
    context.enable_multithreading(not (settings.mlir_disable_threading or settings.prints_ir))
    return context


def _configure(manager: Any, settings: Settings) -> None:
    manager.enable_verifier(settings.verify_each)
    if settings.prints_ir:
        manager.enable_ir_printing(
            print_before_all=settings.mlir_print_ir_before_all,
            print_after_all=settings.prints_ir_after,
            print_after_change=settings.mlir_print_ir_after_change,
            print_after_failure=settings.mlir_print_ir_after_failure,
            print_module_scope=settings.mlir_print_ir_module_scope,
            enable_debug_info=settings.mlir_print_debuginfo,
            print_generic_op_form=settings.mlir_print_op_generic,
            large_elements_limit=_limit(settings.mlir_elide_elementsattrs_if_larger),
            large_resource_limit=_limit(settings.mlir_elide_resource_strings_if_larger),
            tree_printing_dir_path=settings.mlir_print_ir_tree_dir or None,
        )
    if settings.mlir_timing:
        manager.enable_timing()
    if settings.mlir_pass_statistics:
        manager.enable_statistics()


def _printed(operation: Any, settings: Settings) -> bytes:
    if settings.emit_bytecode:
        file = io.BytesIO()
        operation.write_bytecode(file)
        return file.getvalue()
    text: bytes = operation.get_asm(
        binary=True,
        enable_debug_info=settings.mlir_print_debuginfo or settings.mlir_pretty_debuginfo,
        pretty_debug_info=settings.mlir_pretty_debuginfo,
        print_generic_op_form=settings.mlir_print_op_generic,
        use_local_scope=settings.mlir_print_local_scope,
        use_name_loc_as_prefix=settings.mlir_use_nameloc_as_prefix,
        large_elements_limit=_limit(settings.mlir_elide_elementsattrs_if_larger),
        large_resource_limit=_limit(settings.mlir_elide_resource_strings_if_larger),
        assume_verified=settings.verify_each,
    )
    return text


_MOST = 2**31 - 1  # more elements are in no text


def _limit(value: int) -> int | None:
    return None if value < 0 else min(value, _MOST)


def _excerpt(diagnostic: Diagnostic, source: Source, lines: list[str]) -> str:
    """Below `diagnostic`, the line that it speaks of and a caret under its column; or nothing."""
    position = diagnostic.location.removeprefix(f"{source.name}:")
    line, _, column = position.partition(":")
    if not (line.isdecimal() and column.isdecimal()):
        return ""
    index, before = int(line) - source.line, int(column) - 1
    if before < 0 or not 0 <= index < len(lines) or len(lines[index]) > _LONGEST_EXCERPT:
        return ""
    front = lines[index].encode()[:before].decode(errors="replace")  # columns count bytes
    indent = "".join("\t" if c == "\t" else " " for c in front)
    return f"\n{lines[index]}\n{indent}^"
