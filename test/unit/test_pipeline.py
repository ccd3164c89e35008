"""Mixed pipelines on the caller's own pass manager, with both bindings."""

import logging
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from time import sleep
from typing import Any, ClassVar

import pytest

from mopt_mlir import bindings as bindings_module
from mopt_mlir.diagnostics import (
    Diagnostic,
    Failure,
    UserError,
    collected_from,
    emit,
    errors_into,
    sink,
)
from mopt_mlir.pipeline.pass_base import Pass, option, parse_options
from mopt_mlir.pipeline.pass_registry import REGISTRY, load
from mopt_mlir.pipeline.steps import add_passes, parse_pipeline

PACKAGES = ["mlir", "torch_mlir"]
FOLDABLE = """
func.func @f() -> i32 {
  %one = arith.constant 1 : i32
  %two = arith.addi %one, %one : i32
  return %two : i32
}
"""


@dataclass(frozen=True)
class Probe(Pass):
    """Says what it sees, then ends as it is told."""

    name: ClassVar[str] = "test-probe"

    end: str = option("well", help="how to end")
    often: int = option(1, help="remarks")
    ratio: float = option(0.5, help="not used")
    quick_mode: bool = option(False, help="not used")

    def run(self, module: Any) -> None:
        adds = "addi" in str(module)
        for _ in range(self.often):
            emit("remark", module.location, "before folding" if adds else "after folding")
        if self.end == "failing":
            emit("error", "plan.json:3:7", "no such tile")
            raise Failure
        if self.end == "user":
            raise UserError("give another machine")
        if self.end == "bug":
            raise KeyError("oops")
        if self.end == "mlir":
            type(module).parse("func.func", context=module.context)


@pytest.fixture(autouse=True)
def probe(monkeypatch):
    monkeypatch.setitem(REGISTRY, "test-probe", f"{__name__}:Probe")


@pytest.fixture(params=PACKAGES)
def package(request):
    return pytest.importorskip(request.param)


class Session:
    """A module and a pass manager of one package."""

    def __init__(self, package, anchor="builtin.module"):
        self.ir = import_module(f"{package.__name__}.ir")
        manager = import_module(f"{package.__name__}.passmanager").PassManager
        self.context = self.ir.Context()
        self.module = self.ir.Module.parse(FOLDABLE, self.context)
        self.manager = manager(anchor, context=self.context)

    def run(self) -> list[Diagnostic]:
        seen: list[Diagnostic] = []
        with sink(seen.append):
            self.manager.run(self.module.operation)
        return seen


@pytest.fixture
def session(package):
    return Session(package)


def test_passes_of_both_kinds_run_in_order(session):
    add_passes(session.manager, "test-probe,canonicalize", Probe(often=2), "func.func(cse)")
    messages = [diagnostic.message for diagnostic in session.run()]
    assert messages == ["before folding", "after folding", "after folding"]


@pytest.mark.parametrize("end", ["a b", "it's", '"so"', ""])
def test_the_pass_manager_prints_a_pipeline_that_parses_back(session, end):
    given = Probe(end=end, often=3, quick_mode=True)
    add_passes(session.manager, "cse", given, "func.func(cse)")
    anchor, steps = parse_pipeline(str(session.manager))
    assert anchor == "builtin.module"
    assert [step.what for step in steps] == ["cse", given, "func.func(cse)"]


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("failing", "no such tile"),
        ("user", "give another machine"),
        ("bug", "KeyError: 'oops'"),
        ("mlir", "'test-probe' failed: Unable to parse operation"),
    ],
)
def test_what_a_pass_raises_is_an_mlir_error(session, end, message):
    add_passes(session.manager, f"test-probe{{end={end}}}")
    with pytest.raises(session.ir.MLIRError) as failure:
        session.run()
    assert message in "\n".join(d.message for d in failure.value.error_diagnostics)


def test_the_traceback_of_a_mistake_is_where_the_message_says(session, caplog):
    add_passes(session.manager, Probe(end="bug"))
    with caplog.at_level(logging.DEBUG), pytest.raises(session.ir.MLIRError) as failure:
        session.run()
    (message,) = [diagnostic.message for diagnostic in failure.value.error_diagnostics]
    told = re.search(r"please report it, with the traceback that the logger '(.+)' has at", message)
    assert told
    (record,) = [record for record in caplog.records if record.name == told[1]]
    assert record.exc_info[0] is KeyError


def test_a_sink_is_that_of_the_thread_that_entered_it(capsys):
    seen: list[Diagnostic] = []
    with sink(seen.append):
        thread = Thread(target=emit, args=("remark", "", "there"))
        thread.start()
        thread.join()
        emit("remark", "", "here")
    assert [diagnostic.message for diagnostic in seen] == ["here"]
    assert capsys.readouterr().err == "remark: there\n"


def test_an_error_keeps_its_own_location(session):
    add_passes(session.manager, Probe(end="failing"))
    seen: list[Diagnostic] = []
    with sink(seen.append), collected_from(session.context), pytest.raises(session.ir.MLIRError):
        session.manager.run(session.module.operation)
    assert seen[-1] == Diagnostic("error", "plan.json:3:7", "no such tile")


def test_what_mlir_reports_inside_a_pass_is_reported_once(session):
    session.context.allow_unregistered_dialects = True
    session.module = session.ir.Module.parse(
        """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = "who.knows"(%a) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }""",
        session.context,
    )
    add_passes(session.manager, "mopt-lower-to-llvm")
    with pytest.raises(session.ir.MLIRError) as failure:
        session.run()
    assert [d.message for d in failure.value.error_diagnostics] == ["op was not bufferized"]


def test_an_error_may_name_a_file_only(session):
    seen: list[Diagnostic] = []
    with sink(seen.append), collected_from(session.context), errors_into(session.context):
        emit("error", "fast.toml", "no such file")
    assert seen == [Diagnostic("error", "fast.toml", "no such file")]


def test_a_wrong_option_is_located_in_the_pipeline(session):
    with pytest.raises(UserError, match=r"pipeline:1:5: error: unknown machine 'pdp11'"):
        add_passes(session.manager, "cse,mopt-tile{machine=pdp11}")
    with pytest.raises(UserError, match=r"fast\.toml: error: cannot read the machine file"):
        add_passes(session.manager, "cse,mopt-tile{machine=fast.toml}")


def test_passes_after_a_failure_do_not_run(session):
    add_passes(session.manager, Probe(end="user"), "canonicalize")
    with pytest.raises(session.ir.MLIRError):
        session.run()
    assert "arith.addi" in str(session.module)


def test_a_pass_manager_on_functions_is_refused(package):
    with pytest.raises(UserError, match=r"runs on builtin\.module, the pass manager on func"):
        add_passes(Session(package, "func.func").manager, "test-probe")


def test_a_pass_manager_on_anything_is_checked_when_it_runs(package):
    session = Session(package, "any")
    add_passes(session.manager, "test-probe")
    function = session.module.body.operations[0]
    with pytest.raises(session.ir.MLIRError, match=r"runs on builtin\.module, not on func"):
        session.manager.run(function.operation)


def test_only_passes_are_added(session):
    with pytest.raises(TypeError, match="a text or a Pass, not int"):
        add_passes(session.manager, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", r"pipeline:1:1: error: 'nothing' is not a registered pass; MLIR's are listed"),
        ("cse,canonicalise", r":1:5: error: 'canonicalise' .* did you mean 'canonicalize'\?"),
        ("cse,test-prob", r":1:5: error: 'test-prob' .* did you mean 'test-probe'\?"),
        ("func.func(cse,nothing)", r":1:15: error: 'nothing' is not"),
        ("func.func(cse,test-probe)", r":1:15: error: 'test-probe' runs on the whole module"),
        ("cse{often=1}", r":1:1: error: 'cse' has no option 'often'"),
        ("func.func(cse{often=1})", r":1:11: error: 'cse' has no option 'often'"),
        (
            "func.func(canonicalize{max-iterations=5},cse{often=1})",
            r":1:42: error: 'cse' has no option 'often'",
        ),
        ("cse,func.func(cse,cse{bad=1})", r":1:19: error: 'cse' has no option 'bad'"),
        ("func.func(canonicalize,canon)", r":1:24: error: 'canon' is not"),
        ("func.func(cse,\n  nothing)", r"pipeline:2:3: error: 'nothing' is not"),
        ("builtin.module(cse,nothing)", r":1:20: error: 'nothing' is not"),
        ("cse,test-probe{of=1}", r":1:5: error: test-probe: no option is called 'of'"),
        ("test-probe{often=x}", r":1:1: error: test-probe: often='x' is not an integer"),
        ("cse,,cse", r":1:5: error: a pass or an op name is expected"),
        ("cse,", r":1:5: error: a pass or an op name is expected"),
        ("func.func(cse", r":1:10: error: no \) closes this \("),
        ("func.func(cse cse)", r":1:15: error: expected , or \)"),
        ("test-probe{often=1", r":1:11: error: no } closes this {"),
        ("cse)", r":1:4: error: expected , or the end here; options stand in {} behind"),
        ("\n cse,\n  nothing", r"pipeline:3:3: error"),
    ],
)
def test_a_wrong_pipeline_is_located(text, message):
    with pytest.raises(UserError, match=message):
        add_passes(Session(import_module("mlir")).manager, text)


@pytest.mark.parametrize("anchor", ["builtin.module", "any"])
def test_the_anchor_of_a_pipeline_may_be_given_with_it(session, anchor):
    add_passes(session.manager, f"{anchor}(canonicalize,test-probe)")
    assert [diagnostic.message for diagnostic in session.run()] == ["after folding"]


def test_a_pipeline_needs_an_anchor():
    with pytest.raises(UserError, match=r"x:1:1: error: .* builtin.module\(cse\)"):
        parse_pipeline("cse", "x")


def test_our_passes_need_a_pipeline_on_modules():
    with pytest.raises(UserError, match="'test-probe' runs on the whole module"):
        parse_pipeline("func.func(test-probe)")


def test_options_have_the_types_of_their_defaults():
    parsed = parse_options(Probe, "end='a b' often=2  ratio=1e-3 quick-mode")
    assert parsed == Probe(end="a b", often=2, ratio=0.001, quick_mode=True)


@pytest.mark.parametrize("end", ["", "a b", "a,b", "{x}", "(", "=", "plain"])
def test_options_survive_printing(end):
    given = Probe(end=end, quick_mode=True)
    _, steps = parse_pipeline(f"builtin.module({given})")
    assert steps[0].what == given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("oftn=2", r"test-probe: no option is called 'oftn'; did you mean 'often'\?"),
        ("zzz=2", "known: end, often, ratio, quick-mode"),
        ("often", "'often' needs a value"),
        ("ratio=much", "ratio='much' is not a number"),
        ("quick-mode=perhaps", "quick-mode='perhaps' is not true or false"),
        ("often=1 often=2", "'often' is given twice"),
        ("end={a", "no } closes the {"),
    ],
)
def test_wrong_options_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        parse_options(Probe, text)


def test_every_registered_pass_loads_under_its_name():
    for name in REGISTRY:
        assert load(name).name == name


def test_an_unknown_pass_is_refused():
    with pytest.raises(UserError, match=r"did you mean 'mopt-tile'\?"):
        load("mopt-tyle")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Also where tests run in the background of a shell, which has its jobs ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_mlir_is_loaded_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process would crash otherwise. The signal may go to any thread, of some library."""
    loaded = []

    def load(name: str) -> None:
        sender = Thread(target=signal.raise_signal, args=(signal.SIGINT,))
        sender.start()
        sender.join()
        sleep(0.01)  # the main thread would be interrupted here
        loaded.append(name)

    monkeypatch.setattr(bindings_module, "import_module", load)
    with pytest.raises(KeyboardInterrupt):
        _ = bindings_module.Bindings("some").ir
    assert loaded == ["some.ir"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_context_need_not_have_loaded_what_passes_create(package: str) -> None:
    ir, manager = (import_module(f"{package}.{name}") for name in ("ir", "passmanager"))
    text = """func.func @conv(%a: memref<1x4x9x9xf32>, %f: memref<16x4x3x3xf32>,
                                  %x: memref<1x16x7x7xf32>) {
      linalg.conv_2d_nchw_fchw ins(%a, %f : memref<1x4x9x9xf32>, memref<16x4x3x3xf32>)
        outs(%x : memref<1x16x7x7xf32>)
      return
    }"""
    with ir.Context(load_on_create_dialects=["func", "linalg"]):
        module = ir.Module.parse(text)
        pipeline = manager.PassManager("builtin.module")
        add_passes(pipeline, "mopt-tile{machine=znver5 threads=2}", "mopt-lower-to-llvm")
        pipeline.run(module.operation)
        assert "llvm.func" in str(module)
