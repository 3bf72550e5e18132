"""Differences of SQLite and PostgreSQL: opening, and exclusive writing."""
