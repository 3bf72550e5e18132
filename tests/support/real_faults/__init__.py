"""The real service as a process of its own, over a real database and real engines, between which everything can go
wrong: `runs.py` drives it, `witness.py` looks at the engines past it, `invariants.py` says what must always hold."""
