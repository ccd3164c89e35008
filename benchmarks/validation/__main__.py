"""`python -m benchmarks.validation`, the same as mopt-validate."""

import sys

from .command_line import main

sys.exit(main())
