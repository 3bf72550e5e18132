"""Pure core of the scheduler: data model and decisions, without I/O, clock or database."""
