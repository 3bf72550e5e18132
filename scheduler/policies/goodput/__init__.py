"""Goodput policy: the options of each job, their costs, the best combination."""
