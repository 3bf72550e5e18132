"""What users write: jobs, hosts, webhooks; checked here and nowhere else."""
