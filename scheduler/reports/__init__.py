"""What workers report of their training, and what is made of it."""
