"""Operators, peers, protocols and reports: what `mopt-bench` measures, and how.

In a checkout this package is `benchmarks`, installed it is `mopt_mlir.benchmarks`, so its modules
import each other relatively. What worker processes load (`worker`, `timing`, `protocol`,
`workloads` and `peers`, and of the compiler `cache_flush`) needs numpy only and runs where the
compiler is not installed.
"""
