"""Pipelines that mix MLIR's passes with ours, on a pass manager of any MLIR Python bindings.

A pass that is defined in Python cannot be in MLIR's registry, so a pipeline is added to the pass
manager step by step: ours as callables, all others as text. One pass manager runs them all, so that
timing, verification and IR printing make no difference between them.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from string import ascii_lowercase
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import Failure, UserError, emit, errors_into
from mopt_mlir.pipeline.pass_base import Pass, parse_options
from mopt_mlir.pipeline.pass_registry import REGISTRY, load
from mopt_mlir.pipeline.text import NAME, Element, read_elements, read_pipeline
from mopt_mlir.unicode_text import printable

MODULE = "builtin.module"
MLIR_PASSES = "https://mlir.llvm.org/docs/Passes"
_ANCHORS = (MODULE, "any")  # of the pass managers that can run our passes

_PREFIX = re.compile(r"^MLIR Textual PassPipeline Parser:\d+:\d+: error: ")
_RESTRICTED = re.compile(r"restricted to '([\w.]+)' on a PassManager intended to run on")
_UNKNOWN = re.compile(r"'([^']*)' does not refer to a registered pass")
_NO_OPTION = re.compile(r"no such option (\S+)")
_FAILED = re.compile(r"failed to add `([^`]*)`")

_log = logging.getLogger(__name__)


class UnknownPass(UserError):  # noqa: N818 (a kind of UserError)
    """`name` is neither one of our passes nor registered with MLIR."""

    def __init__(self, name: str, message: str, location: str) -> None:
        super().__init__(message, location)
        self.name = name


@dataclass(frozen=True)
class Step:
    """One step of a pipeline: a pass of ours, or text for MLIR; and where the user wrote it, and
    what is nested in it.

    With `nest`, a pass that is restricted to another op than the pass manager's is nested under
    that op, as mlir-opt does with passes that are given as flags.
    """

    what: Pass | str
    location: str = ""
    nest: bool = False
    element: Element | None = None

    def location_of(self, name: str, options: str = "") -> str:
        """Where the pass `name` stands, with `options` among its own; else where the step does."""
        passes = self.element.walk() if self.element else ()
        found = (one.location for one in passes if one.name == name and options in one.options)
        return next(found, self.location)


def add_passes(pm: Any, *passes: str | Pass) -> None:
    """Add passes to a pass manager for `builtin.module` of any MLIR Python bindings.

    Each is a pass object, or text as between the parentheses of a pipeline, such as
    `"mopt-tile{machine=znver5 threads=2}"` or `"canonicalize,mopt-tile"`; the whole of one,
    `"builtin.module(...)"`, stands for these. What a pass of ours finds wrong when it runs is
    emitted as an MLIR error, and `pm.run` raises MLIRError. Raises UserError for an unknown pass or
    option and for a pass manager that does not run on modules.
    """
    for item in passes:
        if isinstance(item, Pass):
            add_steps(pm, [Step(item)])
        elif isinstance(item, str):
            add_steps(pm, steps_of(_unanchored(read_elements(item, "pipeline"))))
        else:
            raise TypeError(f"a pass is a text or a Pass, not {type(item).__name__}")


def _unanchored(elements: tuple[Element, ...]) -> tuple[Element, ...]:
    """What a whole pipeline runs on a module; other elements as they are. (MLIR would run it on the
    modules inside of that one.)"""
    if len(elements) == 1 and elements[0].name in _ANCHORS and elements[0].nested is not None:
        return elements[0].nested
    return elements


def parse_pipeline(text: str, where: str = "pipeline") -> tuple[str, tuple[Step, ...]]:
    """The anchor and the steps of `builtin.module(canonicalize,mopt-tile{threads=2})`.

    `where` names the text in diagnostics. Raises UserError if the text is malformed, a pass of ours
    is nested below the module, or one of its options is wrong.
    """
    pipeline = read_pipeline(text, where)
    if pipeline.name not in _ANCHORS:
        _refuse_ours([pipeline])
    return pipeline.name, steps_of(pipeline.nested or ())


def steps_of(elements: Iterable[Element]) -> tuple[Step, ...]:
    """What `add_steps` takes, from the elements of a pipeline on a module."""
    return tuple(_step(element) for element in elements)


def make_step(name: str, options: str, location: str) -> Step:
    """The pass `name`, ours or MLIR's, as a flag gives it: nested where it has to be.

    Raises UserError if it is ours and an option is wrong; the rest is found by `add_steps`.
    """
    if not NAME.fullmatch(name):
        raise UserError(f"'{name}' is not a name that a pass can have", location)
    if name in REGISTRY:
        return Step(_ours(name, options, location), location)
    return Step(f"{name}{{{options}}}" if options else name, location, nest=True)


def add_steps(pm: Any, steps: Iterable[Step]) -> None:
    """Add `steps` to a pass manager. Raises UserError, located at the step that is wrong."""
    for step in steps:
        try:
            if isinstance(step.what, Pass):
                _add_ours(pm, step.what)
            else:
                _add_upstream(pm, step, step.what)
        except UserError as error:
            error.location = error.location or step.location
            raise


def _step(element: Element) -> Step:
    if element.nested is not None:
        _refuse_ours(element.nested)
    elif element.name in REGISTRY:
        ours = _ours(element.name, element.options, element.location)
        return Step(ours, element.location)
    return Step(element.text, element.location, element=element)


def _refuse_ours(elements: Iterable[Element]) -> None:
    for element in (inner for outer in elements for inner in outer.walk()):
        if element.nested is None and element.name in REGISTRY:
            raise UserError(
                f"'{element.name}' runs on the whole module: "
                f"put it directly between the parentheses of {MODULE}(...)",
                element.location,
            )


def _ours(name: str, options: str, location: str) -> Pass:
    try:
        return parse_options(load(name), options)
    except UserError as error:
        raise UserError(error.message, location) from None


def _add_ours(pm: Any, ours: Pass) -> None:
    anchor, _, _ = str(pm).partition("(")
    if anchor not in _ANCHORS:
        raise UserError(f"'{ours.name}' runs on {MODULE}, the pass manager on {anchor}")
    ours.check()
    # A pass in Python cannot say of which dialects it creates operations, and MLIR ends the process
    # where one is loaded while passes run. (Contexts load all, unless they are told not to.)
    if (context := bindings_of(pm).ir.Context.current) is not None:
        context.load_all_available_dialects()
    # No op_name: the bindings keep a pointer to the text they are given, which is then freed.
    summary = (type(ours).__doc__ or "").partition("\n")[0]
    pm.add(_callback(ours), name=ours.name, argument=printable(str(ours)), description=summary)


def _callback(ours: Pass) -> Callable[[Any, Any], None]:
    """What MLIR calls. MLIR is built without exceptions, so none passes through it, but for
    KeyboardInterrupt, after which the context is not used again."""

    def run(operation: Any, handle: Any) -> None:
        with errors_into(operation.context), operation.context:
            try:
                if operation.name != MODULE:
                    raise UserError(f"'{ours.name}' runs on {MODULE}, not on {operation.name}")
                ours.run(operation)
            except Failure:
                handle.signal_pass_failure()
            except Exception as error:
                _report(error, ours, operation)
                handle.signal_pass_failure()

    return run


def _report(error: Exception, ours: Pass, operation: Any) -> None:
    """Emit what a pass raised; the traceback of our own mistakes goes to the log."""
    if isinstance(error, UserError):
        emit("error", error.location or operation.location, error.message)
    elif isinstance(error, bindings_of(operation).ir.MLIRError):
        for diagnostic in error.error_diagnostics:
            emit("error", diagnostic.location, diagnostic.message)
        emit("error", operation.location, f"'{ours.name}' failed: {error.message}")
    elif isinstance(error, MemoryError):
        emit("error", operation.location, f"'{ours.name}': there is not enough memory for it")
    else:
        _log.debug("'%s' raised", ours.name, exc_info=error)
        last = traceback.extract_tb(error.__traceback__)[-1]
        emit(
            "error",
            operation.location,
            f"'{ours.name}' failed, which is a mistake of its own: {type(error).__name__}: {error} "
            f"({last.filename}:{last.lineno}); please report it, with the traceback that the "
            f"logger '{_log.name}' has at level DEBUG",
        )


def _add_upstream(pm: Any, step: Step, text: str) -> None:
    try:
        pm.add(text)
    except ValueError as error:
        restricted = _RESTRICTED.search(str(error))
        if not (step.nest and restricted):
            raise _explained(pm, step, text, str(error)) from None
        _add_upstream(pm, replace(step, nest=False), f"{restricted[1]}({text})")


def _explained(pm: Any, step: Step, text: str, message: str) -> UserError:
    if unknown := _UNKNOWN.search(message):
        name = unknown[1]
        close = next(_close_names(pm, name), None)
        hint = f"did you mean '{close}'?" if close else f"MLIR's are listed at {MLIR_PASSES}"
        where = step.location_of(name)
        return UnknownPass(name, f"'{name}' is not a registered pass; {hint}", where)
    if (no_option := _NO_OPTION.search(message)) and (failed := _FAILED.search(message)):
        name, option = failed[1], no_option[1]
        return UserError(f"'{name}' has no option '{option}'", step.location_of(name, option))
    lines = (line.strip() for line in _PREFIX.sub("", message).splitlines())
    return UserError(next(filter(None, lines), "") or f"'{text}' cannot be added")


def _close_names(pm: Any, name: str) -> Iterator[str]:
    """Passes whose names look like `name`. The bindings cannot list MLIR's, only be asked for one:
    all texts at one edit from `name` are tried, which takes milliseconds."""
    yield from get_close_matches(name, REGISTRY, 1)
    probe = bindings_of(pm).passmanager.PassManager("any", context=bindings_of(pm).ir.Context())
    for candidate in _one_edit_from(name):
        with suppress(ValueError):
            probe.add(candidate)
            yield candidate


def _one_edit_from(name: str) -> Iterator[str]:
    letters = ascii_lowercase + "-"
    for at in range(len(name) + 1):
        head, tail = name[:at], name[at:]
        yield head + tail[1:]
        yield head + tail[1:2] + tail[:1] + tail[2:]
        for letter in letters:
            yield head + letter + tail
            yield head + letter + tail[1:]
