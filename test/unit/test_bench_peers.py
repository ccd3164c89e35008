"""Every peer that is installed computes the same convolution, in every protocol that it knows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.environment import available_cpus, peers_python, worker_environment
from benchmarks.peers import REGISTRY, pytorch
from benchmarks.peers.interface import Task, UnavailableError
from benchmarks.peers.iree import tensor_mlir
from benchmarks.protocol import Configuration, Protocol
from benchmarks.workers import Worker, WorkerError
from benchmarks.workloads import Workload
from mopt_mlir.pipeline.loading import load_module
from mopt_mlir.reference import evaluate

pytestmark = pytest.mark.xdist_group("bench")

OPERATORS = (
    Workload("strided", k=24, h=7, w=6, c=5, r=3, s=2, n=2, strides=(2, 1)),
    Workload("dilated", k=16, h=5, w=9, c=16, r=2, s=3, dilations=(1, 2)),
    Workload("1x1", k=40, h=7, w=7, c=32, r=1, s=1),
)
INSTALLED_APART = [name for name, entry in REGISTRY.items() if not entry.own and entry.default]


@pytest.mark.parametrize("name", INSTALLED_APART)
def test_peers_agree_with_the_reference(name, tmp_path):
    cpus = available_cpus()
    try:
        worker = Worker(name, peers_python(), worker_environment(1, "native"), cpus[-1:], cpus)
    except WorkerError as reason:
        pytest.skip(f"{name} is not installed (make bench-peers): {reason}")
    with worker:
        assert worker.version
        for operator in OPERATORS:
            for protocol in REGISTRY[name].protocols:
                workload = protocol.workload(operator)
                input_, weights, _ = workload.operands(1)
                reference = workload.reference(input_, weights)
                for file, array in (
                    ("input", input_),
                    ("weights", weights),
                    ("reference", reference),
                ):
                    np.save(tmp_path / f"{file}.npy", array)
                worker.ask(
                    "prepare",
                    workload=asdict(workload),
                    configuration=asdict(Configuration(protocol, cold=False)),
                    directory=str(tmp_path),
                )
                runs = worker.ask("run", count=2, drop=1, cold=False)
                assert len(runs["seconds"]) == 2
                assert worker.ask("check")["error_of_bound"] < 1, (operator.name, protocol)


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_what_iree_is_given_is_the_convolution(operator, protocol):
    workload = protocol.workload(operator)
    input_, weights, _ = workload.operands(2)
    module = load_module(tensor_mlir(workload, None))
    (result,) = evaluate(module, "conv", [input_, weights]).results
    np.testing.assert_allclose(result.value, workload.reference(input_, weights), atol=1e-9)
    load_module(tensor_mlir(workload, weights))  # the constant parses


def test_every_peer_loads_or_says_why_not():
    for name, entry in REGISTRY.items():
        assert entry.protocols
        with suppress(UnavailableError):
            assert peers.load(name).version


@pytest.mark.parametrize(("cold", "chosen"), [(True, "blocked"), (False, "channels_last")])
def test_pytorch_takes_the_way_that_is_faster_as_it_is_measured(cold, chosen, monkeypatch):
    """Played: one way is faster where caches are cold, the other where they are warm."""
    seconds = {"channels_last": {False: 1.0, True: 4.0}, "blocked": {False: 2.0, True: 3.0}}

    def time_runs(way, count, drop, flush=None):
        return [seconds[way][flush is not None]] * count

    monkeypatch.setattr(pytorch, "time_runs", time_runs)
    peer = SimpleNamespace(_torch=MagicMock(), _packed=lambda *_: {way: way for way in seconds})
    workload = OPERATORS[2]
    configuration = Configuration(Protocol.CONSTANT_WEIGHTS, cold)
    flush = MagicMock() if cold else None
    task = Task(workload, configuration, *workload.operands(0)[:2], flush)
    assert pytorch.PyTorch.prepare(peer, task).detail == chosen
