"""Data sets and models stored by the service: manifests and file store."""
