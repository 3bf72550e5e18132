"""Pushed code of jobs: archive format, store, and fetching by git."""
