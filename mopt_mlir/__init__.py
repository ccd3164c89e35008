"""Convolutions in MLIR's linalg dialect to native vector code, by a model solved to optimality."""
