"""Client part for data sets and models: push, list, download, remove."""
