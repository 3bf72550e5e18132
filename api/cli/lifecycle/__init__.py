"""What is done with a job after its submission: waited for, submitted again, deleted."""
