"""Names that functions, variables and parameters may have."""

import io
import re

import pytest

from mopt_mlir import UserError, compile
from mopt_mlir.bindings import bindings
from mopt_mlir.diagnostics import Failure, sink
from mopt_mlir.pipeline.source import Source, parse
from mopt_mlir.unicode_text import is_unicode

NO_TILING = ""  # passes in front of the lowering
F_DYNAMIC = "func.func @f(%x: memref<?xf32>) { return }"
WRAPPER = "_mlir_ciface_f"
CALL = f"func.func @h() {{ call @{WRAPPER}() : () -> ()\n return }}"


@pytest.mark.parametrize(
    "name",
    [
        *("malloc", "free", "memcpy", "memcmp", "strlen", "exp", "tanhf", "fabs", "abs"),
        *("__kmpc_fork_call", "_init"),
    ],
)
def test_functions_of_the_c_library_cannot_be_defined(name):
    with pytest.raises(UserError, match=rf"<text>:2:\d+: error: give @{name} another name: "):
        compile(f"\nfunc.func @{name}(%x: memref<4xf32>) {{ return }}", passes=NO_TILING)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("\\FFa", "is not UTF-8"), ("a\\00", "has a null in it"), ("", "is empty")],
)
@pytest.mark.parametrize(
    "text", ["func.func @{}() {{ return }}", "memref.global @{} : memref<f32>"]
)
def test_symbols_have_names_that_can_be_read(name, problem, text):
    symbol = f'"{name}"'
    expected = f"<text>:2:1: error: the name {symbol} {problem}; give it another one"
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        compile("\n" + text.format(symbol), passes=NO_TILING)


@pytest.mark.parametrize(
    "symbols",
    [
        f"func.func @{WRAPPER}(%x: memref<4xf32>) {{ return }}",
        f"func.func private @{WRAPPER}()\n{F_DYNAMIC}\n{CALL}",
        f"func.func private @{WRAPPER}() {{ return }}\n{F_DYNAMIC}\n{CALL}",
        f"llvm.func @{WRAPPER}() {{ llvm.return }}\n{F_DYNAMIC}",
        f"memref.global @{WRAPPER} : memref<4xf32> = dense<1.0>\n{F_DYNAMIC}",
    ],
)
def test_names_of_wrappers_are_upstreams(symbols):
    """It makes them for functions that are called through descriptors."""
    expected = rf"<text>:2:1: error: give @{WRAPPER} another name: MLIR gives such names"
    with pytest.raises(UserError, match=expected):
        compile("\n" + symbols, passes=NO_TILING)


@pytest.mark.parametrize("symbol", ["func.func private @{}() {{ return }}", "llvm.func @{}()"])
def test_names_of_wrappers_that_are_not_made_are_free(symbol):
    text = f"{symbol.format(WRAPPER)}\nfunc.func @g(%x: memref<?xf32>) {{ return }}"
    call = CALL if symbol.startswith("func") else ""
    entries = compile(f"{text}\n{call}", passes=NO_TILING).entries
    assert [entry.name for entry in entries] == ["g", "h"][: 1 + bool(call)]


def test_symbols_that_code_is_not_called_by_may_have_any_name():
    text = """module @"\\FF" { module @"" { func.func @f() { return } } }
    func.func @g() { "foo.x"() {sym_name = 3} : () -> () return }"""
    context = bindings().ir.Context()
    context.allow_unregistered_dialects = True
    parse(Source("x.mlir", text.encode()), context)


def test_each_name_that_cannot_be_read_is_told():
    inner = 'module { func.func @"\\FFb"() { return } loc(unknown) }'
    text = f'func.func @"\\FFa"() {{ return }}\n{inner}\nmemref.global @"\\FFc" : memref<f32>'
    module = Source("x.mlir", text.encode())
    told = []
    with sink(told.append), pytest.raises(Failure):
        parse(module, bindings().ir.Context())
    assert [diagnostic.location for diagnostic in told] == ["x.mlir:1:1", "x.mlir", "x.mlir:3:1"]


def test_names_in_bytecode_are_read_as_well():
    name = "_" * 20
    module = bindings().ir.Module.parse(
        f"func.func @{name}() {{ return }}", bindings().ir.Context()
    )
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    bytecode = written.getvalue().replace(name.encode(), b"\xff" * 20)
    with pytest.raises(UserError, match='the name "' + r"\\FF" * 20 + '" is not UTF-8'):
        compile(bytecode)


@pytest.mark.parametrize(
    "text", ['func.func private @"\\FFa"()\n' * 2, '%0 = func.constant @"\\FFa" : () -> ()']
)
def test_what_upstream_quotes_need_not_be_readable(text):
    with pytest.raises(
        UserError, match=r"^<text>:[12]:[16]: error: MLIR quotes text that is not UTF-8"
    ):
        compile(text + "\n")


@pytest.mark.parametrize("name", ["\\FFa", "a\\00"])
def test_parameters_whose_names_cannot_be_read_are_numbered(name):
    text = f'func.func @f(%x: memref<4xf32> {{mopt.name = "{name}"}}) {{ return }}'
    (entry,) = compile(f"module {{ {text} }}", passes=NO_TILING).entries
    assert [parameter.name for parameter in entry.parameters] == ["arg0"]


def test_text_that_upstream_does_not_escape_is_not_read():
    context = bindings().ir.Context()
    context.allow_unregistered_dialects = True
    parsed = bindings().ir.Module.parse(b'module attributes {a.b = #a.b<"\xff">} {}', context)
    assert not is_unicode(parsed.operation.attributes["a.b"])
