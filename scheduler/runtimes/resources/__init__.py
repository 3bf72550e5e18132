"""What running tasks and hosts take of processors, memory, network and disk."""
