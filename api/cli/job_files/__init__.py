"""Files that hold jobs: read, made from a job or from questions, and taken over from Slurm."""
