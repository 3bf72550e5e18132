"""Routes of sweeps, experiments, searches, advice and predictions."""
