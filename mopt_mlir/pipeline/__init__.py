"""Passes, pipelines of them, and what `mopt-opt` does with a source."""
