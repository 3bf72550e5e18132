"""Routes of experiments, advice and the search for a configuration."""
