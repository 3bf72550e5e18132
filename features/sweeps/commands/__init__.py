"""Commands for sweeps, experiments, searches, advice and predictions."""
