"""What differs between SQLite and PostgreSQL: how they are opened, and who may write."""
