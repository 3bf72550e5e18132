"""Pure core of the scheduler: data model and decisions.

It does no I/O, reads no clock, and knows no database.
"""
