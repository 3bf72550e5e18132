"""How fast a job trains on which GPUs, and how much that is worth: fits and formulas in NumPy.

Job containers import it too, and are often old: Python 3.8 syntax.
"""
