"""What jobs of one engine keep: their volumes, and what they left elsewhere."""
