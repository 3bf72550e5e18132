"""Data on its way: into the service, to the hosts that lack it, and out of jobs that made it."""
