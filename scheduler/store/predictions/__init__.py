"""What runs of sweeps and experiments came to, and what is learned from it."""
