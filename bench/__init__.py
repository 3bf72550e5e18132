"""Repeatable measurements of the budgets in docs/performance.md: `make bench`, or `python -m bench NAME...`."""
