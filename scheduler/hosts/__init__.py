"""One agent a host: what it observes, starts, stops, stores and copies there."""
