"""The C library in generated code: which of its functions keep their names to themselves, and those
that have to be called since MLIR would approximate them."""

from __future__ import annotations

from typing import Any

from mopt_mlir.bindings import bindings_of
from mopt_mlir.diagnostics import UserError, describe
from mopt_mlir.func_ops import functions_of, name_of, public_functions
from mopt_mlir.lowering.signature import C_INTERFACE
from mopt_mlir.operations import enclosing_module, find

_MEMORY = frozenset(("malloc", "free", "memcpy", "memmove", "memset"))
"""What generated code calls."""

_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1
fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p
log2 logb lrint lround modf nearbyint nextafter pow remainder remquo rint round roundeven scalbln
scalbn sin sincos sinh sqrt tan tanh tgamma trunc
"""
_INTEGERS = "abs labs llabs ffs ffsl ffsll isascii isdigit toascii putchar"
_TEXTS = """
bcmp bcopy bzero memccpy memchr memcmp mempcpy memrchr
atof atoi atol atoll stpcpy stpncpy strcasecmp strcat strchr strcmp strcoll strcpy strcspn strdup
strlcat strlcpy strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strrchr strspn
strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull
calloc realloc aligned_alloc posix_memalign
fprintf fputc fputs fwrite printf puts snprintf sprintf
"""
_KNOWN = frozenset(
    (
        *_INTEGERS.split(),
        *_TEXTS.split(),
        *(name + kind for name in _MATH.split() for kind in ("", "f", "l")),
    )
)
"""What LLVM takes for the C library's, whoever defines it: it computes calls with constants."""

_SYMBOLS = ("func.func", "llvm.func", "memref.global")

_ACCURATE = {"math.expm1": "expm1", "math.log1p": "log1p"}
"""MLIR makes `exp(x) - 1` and `log(1 + x)` of these, which near 0 have no correct digit."""


def check_names(module: Any) -> None:
    """Raise UserError for a function or variable that has the name of a function of the C library,
    of LLVM's own, of OpenMP's or the linker's, or of a wrapper of MLIR's."""
    defined = (*functions_of(module), *find(module, "memref.global"))
    taken = [(named, _taken_by(name_of(named))) for named in defined]
    public = set(map(name_of, public_functions(module)))
    for named in find(module, *_SYMBOLS):
        name = name_of(named)
        called = name.removeprefix(C_INTERFACE)
        if called != name and not public.isdisjoint((called, name)):
            taken.append((named, "MLIR gives such names to what it makes to call other functions"))
    for named, reason in taken:
        if reason:
            message = f"give @{name_of(named)} another name: {reason}"
            raise UserError(message, describe(named.location))


def _taken_by(name: str) -> str:
    """Why nothing else may be called `name`; empty if it may."""
    if name.startswith("llvm."):
        return "LLVM takes it for an intrinsic"
    if name.startswith("__kmpc_"):
        return "code for several cores calls OpenMP's function"
    if name in ("_init", "_fini"):
        return "the linker's start-up code has it"
    if name in _MEMORY:
        return "generated code calls the C library's function"
    return "LLVM takes it for the C library's function" if name in _KNOWN else ""


def call_accurate_functions(module: Any) -> None:
    """Replace operations on scalars that MLIR would approximate by calls of the C library."""
    bindings = bindings_of(module)
    ir = bindings.ir
    declared: dict[tuple[Any, str], Any] = {}  # by the block of the module around, and name
    for operation in find(module, *_ACCURATE):
        type_ = operation.results[0].type
        if not isinstance(type_, ir.FloatType) or type_.width > 64:
            continue  # MLIR's are all there is
        with module.context, ir.InsertionPoint(operation), operation.location:
            narrow = type_.width < 32  # the library has nothing for these
            wide = ir.F32Type.get() if narrow else type_
            name = _ACCURATE[operation.name] + ("f" if wide.width == 32 else "")
            argument = operation.operands[0]
            if narrow:
                argument = bindings.arith.extf(wide, argument)
            result = bindings.func.CallOp([wide], name, [argument]).result
            if narrow:
                result = bindings.arith.truncf(type_, result)
        declared[enclosing_module(operation).regions[0].blocks[0], name] = wide
        operation.results[0].replace_all_uses_with(result)
        operation.erase()
    for (block, name), wide in sorted(declared.items(), key=lambda found: found[0][1]):
        _declare(bindings, block, name, wide)


def _declare(bindings: Any, block: Any, name: str, type_: Any) -> None:
    """Declare a function of the C library at the beginning of a module's `block`."""
    ir = bindings.ir
    if name in ir.SymbolTable(block.owner.operation):
        return
    with block.owner.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
        signature = ir.FunctionType.get([type_], [type_])
        bindings.func.FuncOp(name, signature, visibility="private")
