"""C declarations of a module's entry points."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import chain, count

from mopt_mlir.lowering.signature import Entry, Parameter

C_NAMES: Mapping[str, str] = {
    "f16": "uint16_t",
    "f32": "float",
    "f64": "double",
    "i1": "bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "index": "int64_t",
    "complex<f32>": "float",
    "complex<f64>": "double",
}
"""C's types of elements and scalars; a complex number is two of them, f16 its bits."""

_KEYWORDS = """
_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
false float for friend goto if inline int linux long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename typeof typeof_unqual union unix unsigned using virtual void
volatile wchar_t while xor xor_eq
"""
"""Of C and C++, with what compilers define without being asked to."""

_TYPES = """
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t intmax_t
uintmax_t
"""
_RESERVED = frozenset((*_KEYWORDS.split(), *_TYPES.split()))
_MEMREF = "mopt_memref_"  # followed by a rank: the type of descriptors
_TAKEN = re.compile(
    r"U?INT(PTR|MAX|(_FAST|_LEAST)?\d+)_(MAX|MIN|C|WIDTH)"
    r"|(PTRDIFF|SIG_ATOMIC|SIZE|WCHAR|WINT)_(MAX|MIN|WIDTH)"
    r"|u?int_(fast|least)\d+_t"
    rf"|__.*|{_MEMREF}\d+|MOPT_(MEMREF_\d+|HEADER_.*)"
)
"""Names of stdint.h, of compilers, and of the header itself."""


_RESULTS = "results"  # the parameter that several results are written to
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_NOTE = """\
/* Buffers are dense and row-major unless strides are given, in elements. Pointers are aligned as
 * their types demand, or as it is said; 64 bytes are faster. A buffer that is written to overlaps
 * no other. Nothing checks that sizes given as "?" fit together. */
"""


def header_text(entries: Iterable[Entry], name: str) -> str:
    """The contents of a header for C and C++, to be called `name`.

    Above each declaration a comment gives the shape, the layout if it is not dense, the alignment
    if the function assumes any, and the direction of every buffer.
    """
    entries = tuple(entries)
    taken = {entry.symbol for entry in entries}
    ranks = sorted({len(shape) for e in entries if not e.takes_pointers for shape in _buffers(e)})
    parts = [
        "#include <stdbool.h>\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        _NOTE,
        *map(_descriptor, ranks),
        *(_declaration(entry, taken) for entry in entries),
        "#ifdef __cplusplus\n}\n#endif\n",
    ]
    text = "\n".join(parts)
    guard = _guard(name, text)
    return f"#ifndef {guard}\n#define {guard}\n\n{text}\n#endif /* {guard} */\n"


def _guard(name: str, text: str) -> str:
    """The macro that is defined once a header has been included: another one for another text, as
    headers in two directories may have the same name."""
    digest = sha256(text.encode()).hexdigest()[:12]
    readable = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"MOPT_HEADER_{readable}_{digest}".upper()


def _descriptor(rank: int) -> str:
    """MLIR's memref descriptor of a rank; several headers may define it."""
    sizes = f" int64_t sizes[{rank}]; int64_t strides[{rank}];" if rank else ""
    return f"""\
#ifndef MOPT_MEMREF_{rank}
#define MOPT_MEMREF_{rank}
/* {rank} dimensions; element i, j, ... is at aligned[offset + i * strides[0] + ...]. `allocated` of
 * a result is yours to free(); two results may share it. */
typedef struct {{ void *allocated; void *aligned; int64_t offset;{sizes} }} {_MEMREF}{rank};
#endif
"""


def _declaration(entry: Entry, taken: set[str]) -> str:
    """With the types that it needs, whose names are added to those that are `taken`."""
    entry = _with_c_names(entry)
    lines = [f"/* {_in_comment(entry.name)}"]
    lines += [f" *   {p.name}: {_description(p)}" for p in entry.parameters]
    lines += [f" *   returns {_description(r)}" for r in entry.results]
    comment = "\n".join([*lines, " */"])
    if entry.symbol == "main":
        return (
            f"{comment}\n/* A C program has a main of its own: use dlsym(), or another name. */\n"
        )
    if not _IDENTIFIER.fullmatch(entry.symbol) or _is_reserved(entry.symbol):
        return f'{comment}\n/* "{_in_comment(entry.symbol)}" is not a name in C: use dlsym(). */\n'
    if entry.takes_pointers:
        result = C_NAMES[entry.results[0].element] if entry.results else "void"
        parameters = [_pointer(p) for p in entry.parameters]
        return f"{comment}\n{result} {entry.symbol}({', '.join(parameters) or 'void'});\n"
    return f"{comment}\n{_with_descriptors(entry, taken)}"


def _with_descriptors(entry: Entry, taken: set[str]) -> str:
    parameters = [
        _scalar(p)
        if p.shape is None
        else f"{'const ' * (p.access == 'read')}{_MEMREF}{len(p.shape)} *{p.name}"
        for p in entry.parameters
    ]
    result, struct = "void", ""
    if len(entry.results) > 1:
        fields = " ".join(f"{_by_value(r)} {r.name};" for r in entry.results)
        name = _c_identifier(f"{entry.name}_results", taken)
        struct = f"typedef struct {{ {fields} }} {name};\n"
        parameters.insert(0, f"{name} *{_RESULTS}")
    elif entry.results and entry.results[0].shape is not None:
        parameters.insert(0, f"{_by_value(entry.results[0])} *{entry.results[0].name}")
    elif entry.results:
        result = _by_value(entry.results[0])
    return f"{struct}{result} {entry.symbol}({', '.join(parameters)});\n"


def _buffers(entry: Entry) -> Iterator[tuple[int | None, ...]]:
    """The shapes of the buffers among parameters and results."""
    for parameter in (*entry.parameters, *entry.results):
        if parameter.shape is not None:
            yield parameter.shape


def _by_value(parameter: Parameter) -> str:
    if parameter.shape is None:
        return C_NAMES[parameter.element]
    return f"{_MEMREF}{len(parameter.shape)}"


def _pointer(parameter: Parameter) -> str:
    if parameter.shape is None:
        return _scalar(parameter)
    const = "const " if parameter.access == "read" else ""
    return f"{const}{C_NAMES[parameter.element]} *{parameter.name}"


def _scalar(parameter: Parameter) -> str:
    return f"{C_NAMES[parameter.element]} {parameter.name}"


def _description(parameter: Parameter) -> str:
    """E.g. `f32[1][64][58][58], read` or `f32[?][8], strides ?, 8, written`."""
    if parameter.shape is None:
        return parameter.element
    text = parameter.element + "".join(f"[{_size(extent)}]" for extent in parameter.shape)
    if not parameter.dense:
        text += f", strides {', '.join(map(_size, parameter.strides))}"
    if parameter.offset != 0:
        text += f", beginning at element {_size(parameter.offset)} of the buffer"
    if parameter.alignment > 1:
        text += f", at a multiple of {parameter.alignment} bytes"
    return f"{text}, {'read' if parameter.access == 'read' else 'written'}"


def _size(size: int | None) -> str:
    return "?" if size is None else str(size)


def _in_comment(text: str) -> str:
    return text.replace("*/", "* /")


def _with_c_names(entry: Entry) -> Entry:
    """`entry` with names that C and C++ take for parameters and members, each only once."""
    taken = {_RESULTS, *(f"{_MEMREF}{len(shape)}" for shape in _buffers(entry))}

    def renamed(parameters: Iterable[Parameter]) -> tuple[Parameter, ...]:
        return tuple(replace(p, name=_c_identifier(p.name, taken)) for p in parameters)

    return replace(entry, parameters=renamed(entry.parameters), results=renamed(entry.results))


def _is_reserved(name: str) -> bool:
    """Whether an identifier is something else already, in C or in the header."""
    return name in _RESERVED or bool(_TAKEN.fullmatch(name))


def _c_identifier(name: str, taken: set[str]) -> str:
    """`name`, changed where it is no identifier or is `taken`, to which it is then added."""
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)
    if _is_reserved(safe):
        safe += "_"
    elif not _IDENTIFIER.fullmatch(safe):
        safe = f"_{safe}"
    numbered = (f"{safe}_{number}" for number in count(2))
    unique = next(c for c in chain([safe], numbered) if c not in taken)
    taken.add(unique)
    return unique
