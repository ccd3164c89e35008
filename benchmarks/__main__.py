"""`python -m benchmarks`: mopt-bench from a checkout."""

import sys

from .command_line import main

if __name__ == "__main__":
    sys.exit(main())
