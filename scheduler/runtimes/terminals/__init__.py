"""Interactive commands in running tasks, for each kind of engine."""
