"""CPUs that code is generated for: what they have, which there are, and which this host can run."""

import pytest

from mopt_mlir import UserError, compile
from mopt_mlir.lowering import target
from mopt_mlir.lowering.native import compile_text
from mopt_mlir.lowering.target import (
    check_runs_here,
    known_cpus,
    of_cpu,
    vector_features,
    vector_unit,
)


def test_code_is_for_the_cpu_that_was_asked_for():
    fma = """
      declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
      define <16 x float> @f(<16 x float> %a, <16 x float> %b) {
        %c = call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> %a)
        ret <16 x float> %c
      }"""
    for cpu, register in ("skylake-avx512", "zmm"), ("znver5", "zmm"), ("haswell", "ymm"):
        assembly = compile_text(fma, of_cpu(cpu), ["f"]).assembly()
        fmas = [line for line in assembly.splitlines() if "vfmadd" in line]
        assert len(fmas) == (1 if register == "zmm" else 2)
        assert all(register in line for line in fmas)


def test_an_unknown_cpu_is_refused_with_similar_names():
    with pytest.raises(UserError, match="LLVM knows no CPU 'znver55'; did you mean znver5"):
        of_cpu("znver55")
    assert {"znver5", "skylake-avx512", "haswell"} <= set(known_cpus())


def test_code_that_cannot_run_here_is_refused(monkeypatch):
    monkeypatch.setattr(target, "host", lambda: of_cpu("haswell"))
    check_runs_here(of_cpu("broadwell"))
    message = "code for 'skylake-avx512' does not run here: this CPU lacks avx512bw"
    with pytest.raises(UserError, match=message):
        check_runs_here(of_cpu("skylake-avx512"))
    with pytest.raises(UserError, match=message):
        compile("module {}", cpu="skylake-avx512")


@pytest.mark.parametrize(
    ("cpu", "bits", "some"),
    [
        ("haswell", 256, {"avx2", "fma"}),
        ("core-avx2", 256, {"avx2", "fma"}),
        ("icelake-server", 512, {"avx2", "fma", "avx512f", "avx512vl", "avx512vnni"}),
        ("znver5", 512, {"avx512f", "avx512bf16"}),
    ],
)
def test_what_a_cpu_has_is_what_llvm_knows_of_it(cpu, bits, some):
    assert vector_unit(of_cpu(cpu)).bits == bits
    features = vector_features(of_cpu(cpu))
    assert some <= features
    assert ("avx512f" in features) == (bits == 512)
    assert "avx512fp16" not in features


@pytest.mark.parametrize("cpu", ["x86-64", "sandybridge", "bdver2", "pentium"])
def test_a_cpu_without_fma_is_refused(cpu):
    with pytest.raises(UserError, match=f"CPU '{cpu}' has no AVX2 and FMA, .* haswell or x86-64"):
        of_cpu(cpu)
