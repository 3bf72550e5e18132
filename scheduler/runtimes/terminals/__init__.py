"""Commands that people run in a running task: a terminal over each kind of engine."""
