"""Output of a job's log: pieces as they come, and times of lines."""
