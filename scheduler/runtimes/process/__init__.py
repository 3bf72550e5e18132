"""Local processes as tasks."""
