"""Where lists of operators are, and where results go."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path("build/validation")

TESTSET, HELDOUT, NETWORKS = "testset", "heldout", "networks"
"""Operators to judge the model by, beside Table 1."""

DATA = "validation"
"""The directory of plots, data and pages, beside the document."""

LISTS = {name: Path(__file__).with_name(f"{name}.json") for name in (TESTSET, HELDOUT, NETWORKS)}
