"""Versions of data sets and models, and which of them jobs have."""
