"""Jobs of the simulator: how they really train, and what has been learned about them."""
