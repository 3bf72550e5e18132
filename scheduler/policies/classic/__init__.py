"""The classic policies, and what they have in common."""
