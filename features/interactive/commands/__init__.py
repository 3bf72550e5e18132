"""Commands that work inside of running jobs."""
