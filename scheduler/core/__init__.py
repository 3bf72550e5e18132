"""Pure: what the scheduler knows and how it reasons. No I/O, no clock, no database."""
