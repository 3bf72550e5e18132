"""What the predecessors measured, measured here."""
