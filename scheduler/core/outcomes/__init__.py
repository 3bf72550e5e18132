"""From what hosts show to what becomes of tasks, jobs, hosts and GPUs. Pure."""
