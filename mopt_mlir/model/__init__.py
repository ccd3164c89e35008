"""Footprints, data volumes, loop-order classes, microkernels and costs: pure functions, no MLIR."""
