"""Where this project keeps what it can recreate: plans, and measurements of this machine."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "MOPT_CACHE_DIR"
"""Names another directory; tests set it, so that they leave the user's alone."""


def cache_directory() -> Path | None:
    """`$MOPT_CACHE_DIR` if set, else the platform's directory for caches of this user.

    It need not exist yet. None where the user has no home directory.
    """
    given = os.environ.get(ENVIRONMENT)
    if given:
        return Path(given).absolute()
    import platformdirs

    try:
        path = platformdirs.user_cache_path("mopt-mlir", appauthor=False)
    except RuntimeError:  # there is no home; earlier releases say "~/.cache/..."
        return None
    return path if path.is_absolute() else None
