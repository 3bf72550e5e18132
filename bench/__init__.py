"""Repeatable measurements of the budgets in docs/performance.md: `make bench`, or `python -m bench NAME...`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
"""Fakes of hosts."""
