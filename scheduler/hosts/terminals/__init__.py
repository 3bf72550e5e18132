"""What people run in their jobs' tasks, on whatever host these are."""
