"""Data sets and models that the service keeps: what one holds, and where its files are."""
