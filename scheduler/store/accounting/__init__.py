"""What was used of the GPUs, by whom, and how many there were."""
