"""Stored versions of data sets and models, and jobs that use them."""
