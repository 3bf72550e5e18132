"""Usage of CPU, memory, network and disk by running tasks and hosts."""
