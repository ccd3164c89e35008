"""What `--version` prints: the versions of mopt-mlir and of what its output depends on."""

from __future__ import annotations

_PACKAGES = (
    ("mopt-mlir", "mopt-mlir"),
    ("xtc-mlir-python-bindings", "MLIR"),
    ("llvmlite", "llvmlite"),
)


def versions() -> str:
    """A line for each, without loading any."""
    from importlib.metadata import PackageNotFoundError, version

    lines = []
    for package, what in _PACKAGES:
        try:
            lines.append(f"{what} {version(package)}\n")
        except PackageNotFoundError:
            lines.append(f"{what}: package {package} is not installed\n")
    return "".join(lines)
