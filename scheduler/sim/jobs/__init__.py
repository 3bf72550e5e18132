"""Jobs of the simulator: their true training, and what is known of it."""
