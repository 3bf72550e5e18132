"""The goodput policy: what each job may choose from, what that costs, and the best of all of it."""
