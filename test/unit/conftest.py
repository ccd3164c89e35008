"""Fixtures and paths shared by the Python tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks: workloads to check
