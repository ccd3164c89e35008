"""Valgrind's counts beside our own simulation: what its files say, and once for real."""

import pytest

from benchmarks.environment import available_cpus
from benchmarks.operators import problem_of
from benchmarks.validation import crosscheck
from benchmarks.validation.planned import machine_for
from benchmarks.validation.sample import sample_plans
from benchmarks.validation.volumes import simulate
from benchmarks.workloads import Workload
from mopt_mlir import UserError

FILE = """desc: D1 cache: 32768 B, 64 B, 8-way associative
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
fn=main
summary: 100 1 1 50 7 5 20 3 2
"""


def test_misses_of_loads_and_stores_are_added():
    assert crosscheck.read_counts(FILE) == {"L1": 10, "L2": 7}


def test_a_file_without_misses_is_refused():
    with pytest.raises(UserError, match="did not count any misses"):
        crosscheck.read_counts("events: Ir\nsummary: 3\n")


@pytest.mark.skipif(not crosscheck.is_available(), reason="there is no valgrind")
def test_valgrind_agrees():
    # one with far more misses than Python's own, which change with the call
    workload = Workload("x", k=64, h=24, w=24, c=48, r=1, s=1)
    machine = machine_for("avx2", available_cpus())
    (plan,) = sample_plans(problem_of(workload), machine, 1, 3)
    ours, theirs = (
        simulate(workload, plan, machine, "avx2"),
        crosscheck.misses(workload, plan, machine),
    )
    assert theirs["L1"] == pytest.approx(ours.misses["L1"], rel=0.15)
