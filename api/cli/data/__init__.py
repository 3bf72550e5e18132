"""The commands for data sets and models."""
