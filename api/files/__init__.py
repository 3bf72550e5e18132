"""A job's files over HTTP."""
