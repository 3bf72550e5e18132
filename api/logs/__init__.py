"""Output of a job's log: pieces as they come, times of lines."""
