"""On the way of a job into the database: what it names is settled, and jobs that come together are stored together."""
