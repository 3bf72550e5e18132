"""A job's log as it goes out: pieces as they come, and when each line was written."""
