"""The entry points of a module: what a caller has to pass, and how.

A public function becomes an entry point. What its signature was is written to the attribute
`mopt.entry` before the LLVM dialect forgets it, and read back from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe, emit
from mopt_mlir.func_ops import (
    PARAMETER_NAME,
    argument_attributes,
    declarations_of,
    functions_of,
    is_public,
    name_of,
    public_functions,
    set_argument_attributes,
    set_result_attributes,
)
from mopt_mlir.layouts import is_row_major, layout_of
from mopt_mlir.lowering.parameters import assumed_alignment, freeing
from mopt_mlir.lowering.results import RESULT
from mopt_mlir.lowering.signature import CONVENTIONS, ELEMENTS, SCALARS, Entry, Parameter
from mopt_mlir.operations import directly_in, find
from mopt_mlir.unicode_text import is_unicode

ENTRY = "mopt.entry"
_EXTENSIONS = {"i1": "llvm.zeroext", "i8": "llvm.signext", "i16": "llvm.signext"}
"""How a parameter is made as wide as C's int."""

_FIELDS = ("name", "type", "access", "position", "alignment")


def annotate_entries(module: Any) -> None:
    """Attach `mopt.entry` to every public function of a bufferised module, and ask upstream's
    lowering for the calling convention that fits it.

    Functions that are only declared are called by the same conventions.

    A function that cannot be called from outside, because a parameter has a type that C does not
    have, gets a warning instead; so does one in a module inside of this one. Raises UserError for
    one that frees a parameter.
    """
    ir = bindings_of(module).ir
    for function in find(module, "func.func"):
        inside = function.parent.operation != module
        if inside and len(function.regions[0].blocks) and is_public(function):
            message = f"@{name_of(function)} cannot be called from C: it is in a module of its own"
            emit("warning", function.location, message)
    _give_pointers_their_own(module)
    with module.context:
        for function in functions_of(module):
            attributes = argument_attributes(function)
            entry = _entry_of(ir, function, attributes)
            drop = (PARAMETER_NAME, RESULT)
            kept = [{k: v for k, v in a.items() if k not in drop} for a in attributes]
            set_argument_attributes(function, kept)
            if entry is not None:
                _check_frees(function)
                for other in CONVENTIONS:  # that of the source, perhaps
                    if other in function.attributes:
                        del function.attributes[other]
                function.attributes[entry.convention] = ir.UnitAttr.get()
                write_entry(function, entry)
                if [str(result) for result in entry.results] == ["i1"]:  # C's bool is 0 or 1
                    set_result_attributes(function, [{"llvm.zeroext": ir.UnitAttr.get()}])
        for function in declarations_of(module):
            _extend_integers(ir, function)
            if (convention := _declared_convention(ir, function)) is not None:
                function.attributes[convention] = ir.UnitAttr.get()


def _check_frees(function: Any) -> None:
    for parameter in function.regions[0].blocks[0].arguments:
        for operation in freeing(parameter):
            raise UserError(
                f"'{operation.name}' frees a parameter of @{name_of(function)}, which is public: "
                "make the function private, or let its callers free what they allocate",
                describe(operation.location),
            )


def _extend_integers(ir: Any, function: Any) -> None:
    """Have the callers of a declared function extend what is narrower than C's int: what C
    compilers make of the function takes it to be."""
    types = map(str, function.attributes["function_type"].value.inputs)
    attributes = argument_attributes(function)
    for type_, known in zip(types, attributes, strict=True):
        if type_ in _EXTENSIONS:
            known[_EXTENSIONS[type_]] = ir.UnitAttr.get()
    set_argument_attributes(function, attributes)


def _declared_convention(ir: Any, function: Any) -> str | None:
    """How to call a function that another module defines: as if that was compiled like this one.
    None for types that C does not have."""
    type_ = function.attributes["function_type"].value
    parameters = [_parameter(ir, "", part) for part in (*type_.inputs, *type_.results)]
    known = tuple(parameter for parameter in parameters if parameter is not None)
    results = known[len(type_.inputs) :]
    if len(known) < len(parameters) or any(result.shape is not None for result in results):
        return None  # buffers are returned by what nobody here calls, see `results`
    return Entry(name_of(function), known[: len(type_.inputs)], results).convention


def _give_pointers_their_own(module: Any) -> None:
    """Let each `func.constant` of a function that is public, or only declared, be one of a private
    function that calls it: what calls through a pointer knows nothing of such conventions."""
    bindings = bindings_of(module)
    ir, func, symbols = bindings.ir, bindings.func, bindings.ir.SymbolTable(module)
    outside = {name_of(f): f for f in (*public_functions(module), *declarations_of(module))}
    own: dict[str, str] = {}
    constants = [op for function in functions_of(module) for op in find(function, "func.constant")]
    for use in constants:
        name = use.attributes["value"].value
        if name not in outside:
            continue
        with module.context, use.location:
            if name not in own:
                type_ = outside[name].attributes["function_type"].value
                with ir.InsertionPoint(module.regions[0].blocks[0]):
                    function = func.FuncOp(f"{name}_pointed_to", type_, visibility="private")
                block = function.add_entry_block()
                with ir.InsertionPoint(block):
                    call = func.CallOp(list(type_.results), name, list(block.arguments))
                    func.ReturnOp(list(call.operation.results))
                own[name] = symbols.insert(function.operation).value
            use.attributes["value"] = ir.FlatSymbolRefAttr.get(own[name])


def write_entry(function: Any, entry: Entry) -> None:
    """Attach `mopt.entry` to a function."""
    ir = bindings_of(function).ir
    i64 = ir.IntegerType.get_signless(64, function.context)

    def as_attribute(parameter: Parameter) -> Any:
        fields = {
            "name": ir.StringAttr.get(parameter.name),
            "type": ir.TypeAttr.get(ir.Type.parse(str(parameter))),
            "access": ir.StringAttr.get(parameter.access),
            "position": ir.IntegerAttr.get(i64, parameter.position),
        }
        if parameter.alignment > 1:
            fields["alignment"] = ir.IntegerAttr.get(i64, parameter.alignment)
        return ir.DictAttr.get(fields)

    with function.context:
        parameters = ir.ArrayAttr.get([as_attribute(p) for p in entry.parameters])
        results = ir.ArrayAttr.get([as_attribute(r) for r in entry.results])
        fields = {"parameters": parameters, "results": results}
        function.attributes[ENTRY] = ir.DictAttr.get(fields)


def read_entry(function: Any) -> Entry:
    """The inverse of `write_entry`. Raises UserError, located at the function, for what that does
    not write."""
    ir, location = bindings_of(function).ir, describe(function.location)

    def parameters(attribute: Any) -> Iterator[Parameter]:
        for fields in attribute:
            parts = {key: fields[key].value for key in _FIELDS if key in fields}
            parameter = _parameter(ir, parts.pop("name"), parts.pop("type"), **parts)
            if parameter is None:
                raise ValueError
            yield parameter

    attribute = function.attributes[ENTRY]
    try:
        given, returned = (tuple(parameters(attribute[key])) for key in ("parameters", "results"))
        return Entry(name_of(function), given, returned, location)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(
            f"'{ENTRY}': not as mopt-compile writes it; compile what it was made from", location
        ) from None


def entry_functions(module: Any) -> list[Any]:
    """The functions of a module that are entry points."""
    return [op for op in directly_in(module) if ENTRY in op.attributes]


def _entry_of(ir: Any, function: Any, attributes: list[dict[str, Any]]) -> Entry | None:
    """The entry point that a public function is, None for any other function."""
    if not is_public(function):
        return None
    fields = function.attributes
    name, type_ = fields["sym_name"].value, fields["function_type"].value
    for part in (*type_.inputs, *type_.results):
        if _parameter(ir, "", part) is None:
            message = (
                f"@{name} cannot be called from C: it has a parameter or result of type {part}"
            )
            emit("warning", function.location, message)
            return None
    positions = [known[RESULT].value for known in attributes if RESULT in known]
    scalars = [i for i in range(len(positions) + len(type_.results)) if i not in positions]
    count = len(positions) + len(scalars)
    parameters = []
    for index, (input_, known) in enumerate(zip(type_.inputs, attributes, strict=True)):
        if RESULT in known:
            position = known[RESULT].value
            parameter = _parameter(
                ir, _numbered("result", position, count), input_, "result", position
            )
        else:
            label = _label(known, f"arg{index}")
            alignment = assumed_alignment(function.regions[0].blocks[0].arguments[index])
            parameter = _parameter(ir, label, input_, "write", alignment=alignment)
        parameters.append(parameter)
    results = [
        _parameter(ir, _numbered("result", position, count), result, "result", position)
        for position, result in zip(scalars, type_.results, strict=True)
    ]
    return Entry(name, tuple(filter(None, parameters)), tuple(filter(None, results)))


def _label(attributes: dict[str, Any], default: str) -> str:
    """What a parameter with these attributes is called in headers and messages."""
    name = attributes.get(PARAMETER_NAME)
    if name is None or not is_unicode(name) or "\0" in name.value:
        return default
    return str(name.value)


def _numbered(stem: str, position: int, count: int) -> str:
    return stem if count == 1 else f"{stem}{position}"


def _parameter(
    ir: Any, name: str, type_: Any, access: str = "read", position: int = 0, alignment: int = 1
) -> Parameter | None:
    """A scalar or buffer of an MLIR type, None if C has no such thing."""
    if not isinstance(type_, ir.MemRefType):
        scalar = Parameter(name, str(type_), access=access, position=position)
        return scalar if scalar.element in SCALARS else None
    element = str(type_.element_type)
    layout = layout_of(type_)
    if layout is None or element not in ELEMENTS:
        return None
    dynamic = ir.ShapedType.get_dynamic_size()
    return Parameter(
        name,
        element,
        tuple(None if size == dynamic else size for size in type_.shape),
        layout.strides,
        layout.offset,
        is_row_major(type_),
        access,
        position,
        alignment,
    )
