"""Data sets and models: pushed, listed, brought here, removed."""
