"""What the ended jobs of a family tell of the next one: how long it takes, and what it reaches."""
