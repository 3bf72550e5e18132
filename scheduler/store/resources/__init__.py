"""Resource use of tasks and hosts, by minute."""
