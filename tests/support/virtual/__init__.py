"""A whole service over engines in memory, in virtual time and in one thread: what happens, and in which order, follows
from a seed alone. `runs.py` drives it, `invariants.py` says what must always hold."""
