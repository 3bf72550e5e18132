"""Volumes and untracked files of jobs on one engine."""
