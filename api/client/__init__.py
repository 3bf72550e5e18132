"""The API as methods."""
