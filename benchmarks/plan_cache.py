"""How long a plan takes that was found before: `python -m benchmarks.plan_cache`, a few seconds.

Plans the operators of Table 1 with an empty cache, then looks each up many times, and one in
processes that have done nothing else, which also have to find out the version of the model and of
the packages it is solved with. The operating system's cache of files is warm.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

REPEAT = 200
PROCESSES = 5

FIRST_HIT = """if True:
    from time import perf_counter
    from mopt_mlir.machine import by_name
    from mopt_mlir.planning.operators import TABLE1, read_list
    from mopt_mlir.planning.plan_cache import PlanCache
    from mopt_mlir.planning.solving import Request, look_up
    problem, machine = read_list(TABLE1)[0].problem, by_name("znver5")
    start = perf_counter()
    found = look_up(problem, machine, Request(), PlanCache())
    print(perf_counter() - start if found else "missing")
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        os.environ["MOPT_CACHE_DIR"] = directory
        measure(Path(directory))
    return 0


def measure(directory: Path) -> None:
    from mopt_mlir.machine import by_name
    from mopt_mlir.planning.operators import TABLE1, read_list
    from mopt_mlir.planning.plan_cache import PlanCache
    from mopt_mlir.planning.plan_many import plan_many
    from mopt_mlir.planning.solving import Request, look_up

    planned = plan_many(TABLE1, machine="znver5", jobs=1)
    report("solved", [one.solution.seconds for one in planned])
    cache, machine, request = PlanCache(), by_name("znver5"), Request()
    hits = []
    for operator in read_list(TABLE1):
        for _ in range(REPEAT):
            start = perf_counter()
            found = look_up(operator.problem, machine, request, cache)
            hits.append(perf_counter() - start)
            assert found is not None
    report("kept", hits)
    report("kept, first in a process", [first_hit() for _ in range(PROCESSES)])
    sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
    print(f"{len(sizes)} plans, {sum(sizes) / len(sizes):.0f} bytes each")


def first_hit() -> float:
    return float(subprocess.check_output([sys.executable, "-c", FIRST_HIT], text=True))


def report(what: str, seconds: list[float]) -> None:
    milliseconds = sorted(1e3 * s for s in seconds)
    rare = milliseconds[int(0.99 * len(milliseconds))]
    print(
        f"{what:26} median {statistics.median(milliseconds):8.3f} ms, 99% below {rare:8.3f} ms,"
        f" worst {milliseconds[-1]:8.3f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
