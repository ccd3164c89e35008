"""Which machine is planned for and which CPU code is for, and what does not go together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mopt_mlir
from mopt_mlir import UserError
from mopt_mlir.compiler.ahead_of_time import compile_to_file
from mopt_mlir.compiler.mismatches import warn_of_mismatches
from mopt_mlir.compiler.options import CompileOptions, closest_machine
from mopt_mlir.lowering.target import Target, host, of_cpu
from mopt_mlir.pipeline.loading import load_module

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("cpu", "machine"),
    [
        ("znver5", "znver5"),
        ("icelake-server", "icelake-server"),
        ("skylake", "i7-9700k"),
        ("broadwell", "haswell"),  # its ancestor
        ("alderlake", "i7-9700k"),  # not its AVX-512 relatives
        ("znver3", "znver3"),
        ("znver2", "generic-avx2"),
        ("tigerlake", "generic-avx512"),  # which archspec does not know
        ("emeraldrapids", "emeraldrapids"),  # nor this one, which has a file
        ("graniterapids-d", "graniterapids"),  # nor this one, but what it is of
    ],
)
def test_the_closest_machine_to_a_cpu(cpu, machine):
    assert closest_machine(of_cpu(cpu)) == machine


@pytest.mark.parametrize(("cpu", "machine"), [("znver4", "znver3"), ("generic", "generic-avx2")])
def test_the_closest_machine_has_the_vectors_that_a_hypervisor_leaves(cpu, machine):
    features = "+avx2,+fma,-avx512f" if cpu == "generic" else "-avx512f"
    assert closest_machine(Target(cpu, features)) == machine


def test_the_machine_follows_the_cpu_unless_it_is_given():
    assert CompileOptions().planned_machine == "auto"
    assert CompileOptions(cpu="haswell").planned_machine == "haswell"
    overridden = CompileOptions(cpu="haswell", machine="auto,cores=2")
    assert overridden.planned_machine == "haswell,cores=2"
    assert CompileOptions(cpu="haswell", machine="znver5").planned_machine == "znver5"
    assert CompileOptions(cpu="host").planned_machine == "auto"


def test_the_cpu_of_files_follows_the_machine_unless_it_is_given():
    assert CompileOptions(machine="i7-9700k").target_of_files().cpu == "skylake"
    assert CompileOptions(machine="i7-9700k", cpu="haswell").target_of_files().cpu == "haswell"
    assert CompileOptions().target_of_files() == host()
    assert CompileOptions(machine="host,cores=2").target_of_files() == host()
    assert CompileOptions(machine="host,cpu=haswell").target_of_files().cpu == "haswell"


@pytest.mark.parametrize(
    ("machine", "cpu", "warns"),
    [
        ("znver5", "haswell", True),
        ("haswell", "znver5", True),
        ("znver5", "icelake-server", False),
        ("haswell", None, False),
        ("auto", "haswell", False),
    ],
)
def test_vectors_that_differ_in_width_are_told(machine, cpu, warns):
    seen = []
    with mopt_mlir.sink(seen.append):
        options = CompileOptions(machine=machine, cpu=cpu)
        warn_of_mismatches(load_module(EXAMPLES / "conv.mlir"), options, options.target_of_files())
    assert [diagnostic.severity for diagnostic in seen] == ["warning"] * warns
    if warns:
        assert f"'{cpu}' is a machine that fits" in seen[0].message


@pytest.mark.parametrize("text", ["module {}", (EXAMPLES / "planned.mlir").read_text()])
def test_vectors_do_not_matter_where_nothing_is_planned(text):
    seen = []
    with mopt_mlir.sink(seen.append):
        options = CompileOptions(machine="znver5", cpu="haswell")
        warn_of_mismatches(load_module(text), options, options.target_of_files())
    assert not [one for one in seen if one.message.startswith("the plan is for")]


@pytest.mark.parametrize(("bits", "severities"), [(256, []), (512, ["warning"])])
def test_vectors_are_those_that_the_module_names(bits, severities):
    device = f'#dlti.target_device_spec<"max_vector_op_width" = {bits}>'
    spec = f'dlti.target_system_spec = #dlti.target_system_spec<"CPU" = {device}>'
    convolution = (EXAMPLES / "conv.mlir").read_text()
    module = load_module(f"module attributes {{{spec}}} {{\n{convolution}\n}}")
    seen = []
    with mopt_mlir.sink(seen.append):
        warn_of_mismatches(module, CompileOptions(), of_cpu("haswell"))
    assert [diagnostic.severity for diagnostic in seen] == severities


@pytest.mark.parametrize(
    ("threads", "cpu", "told"),
    [
        (1, "znver5", []),
        (
            1,
            "haswell",
            ["is for vectors of 512 bits, but CPU 'haswell' has 256: expect a fraction"],
        ),
        (
            4,
            "znver5",
            ["is for 1 thread, but threads=4 was asked for; ask for threads=1, or leave"],
        ),
    ],
)
def test_plans_that_are_there_already_are_compared_with_what_is_asked_for(threads, cpu, told):
    module = load_module(EXAMPLES / "planned.mlir")
    seen = []
    with mopt_mlir.sink(seen.append):
        warn_of_mismatches(module, CompileOptions(threads=threads), of_cpu(cpu))
    assert [diagnostic.severity for diagnostic in seen] == ["warning"] * len(told)
    for diagnostic, text in zip(seen, told, strict=True):
        assert f"its plan {text}" in diagnostic.message
        assert diagnostic.location.endswith("planned.mlir:6:3")


def test_compiling_compares_plans(tmp_path):
    seen = []
    options = CompileOptions(machine="znver5", threads=2)
    with mopt_mlir.sink(seen.append):
        compile_to_file(EXAMPLES / "planned.mlir", tmp_path / "conv.mlir", options)
    assert ["but threads=2 was asked for" in diagnostic.message for diagnostic in seen] == [True]


def test_what_is_no_plan_is_for_tiling_to_say():
    text = (EXAMPLES / "planned.mlir").read_text()
    seen = []
    for wrong in (text.replace("threads = 1", "threads = 0"), text.replace("f32", "f16")):
        with mopt_mlir.sink(seen.append):
            warn_of_mismatches(load_module(wrong), CompileOptions(threads=2), of_cpu("haswell"))
    assert seen == []


def test_a_narrow_plan_for_the_host_is_no_mistake():
    seen = []
    with mopt_mlir.sink(seen.append):
        options = CompileOptions(machine="haswell")
        module = load_module(EXAMPLES / "conv.mlir")
        warn_of_mismatches(module, options, options.target_here())
    assert seen == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machine": None}, "machine=None is of type NoneType, not str"),
        ({"threads": "2"}, "threads='2' is of type str, not int"),
        ({"threads": 1.5}, r"threads=1\.5 is of type float, not int"),
        ({"threads": True}, "threads=True is of type bool, not int"),
        ({"cpu": 5}, "cpu=5 is of type int, not str"),
        ({"require_tiled": "no"}, "require_tiled='no' is of type str, not bool"),
        ({"passes": ["cse"]}, r"passes=\['cse'\] is of type list, not str"),
    ],
)
def test_values_of_another_type_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        mopt_mlir.compile("module {}", **options)


def test_a_machine_is_named_and_the_plans_for_another_one_are_attached():
    with pytest.raises(TypeError, match="a text that names one is needed, as 'znver5,cores=2'"):
        mopt_mlir.compile("module {}", machine=mopt_mlir.machine.by_name("znver5"))


def test_what_other_passes_do_not_know_is_refused():
    with pytest.raises(UserError, match="require_tiled=True is asked of mopt-tile, which passes="):
        CompileOptions(passes="canonicalize", require_tiled=True)
    with pytest.raises(
        UserError, match=r"plan_cache=False .*; leave out .* or say plan-cache=false"
    ):
        CompileOptions(passes="mopt-tile", plan_cache=False)
    with pytest.raises(UserError, match="jobs=2 plan for mopt-tile, which passes='mopt-tile' repl"):
        CompileOptions(passes="mopt-tile", jobs=2)
    with pytest.raises(UserError, match=r"machine='znver5' is for mopt-tile, .* mopt-tile{machine"):
        mopt_mlir.compile("module {}", passes="mopt-tile", machine="znver5")


def test_what_is_public_is_there_after_one_import():
    text = "import mopt_mlir; print(mopt_mlir.machine.resolve('znver5').cores)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "8\n"


def test_a_machine_is_a_name_and_no_more():
    with pytest.raises(UserError, match=r"unknown machine 'znver5\} threads=2 \{'"):
        mopt_mlir.compile("module {}", machine="znver5} threads=2 {")


def test_more_threads_than_cpus_are_refused(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    with pytest.raises(UserError, match="threads=3: this process may run on 2 CPUs; use fewer"):
        CompileOptions(threads=3).target_here()


def test_more_threads_than_the_machine_has_cores_are_refused(any_threads):
    with pytest.raises(UserError, match=r"threads=2: machine .* has 1 core; use fewer threads"):
        mopt_mlir.compile("module {}", machine="generic-avx2,cores=1", threads=2)
